import { defineConfig } from "vite";

// One script and one style sheet, named without hashes, so that a rebuild gives the same bytes.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/veracity/report/interactive/bundle",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app.[ext]", codeSplitting: false },
    },
  },
});
