import type { Selection } from "./types";

/** Lines of Python that load what is chosen. */
export function snippet(folder: string, model: string, explainer: string, score: string, sample: number | null): string {
  const name = (text: string): string => JSON.stringify(text);
  const lines = [
    "import veracity",
    "",
    `run = veracity.Result(${name(folder)})`,
    "table = run.table()",
    `samples = run.samples(${name(score)})`,
    `chosen = samples[(samples["model"] == ${name(model)}) & (samples["explainer"] == ${name(explainer)})]`,
  ];
  if (sample !== null) lines.push(`print(chosen[chosen["sample"] == ${sample}])`);
  if (explainer && sample !== null) lines.push("from veracity.results.cases import sample_explanation", `explanation = sample_explanation(run, ${name(model)}, ${name(explainer)}, ${sample})`);
  return lines.join("\n");
}

/** Lines of Python that load the selected samples. */
export function selectionSnippet(folder: string, model: string, explainer: string, score: string, { n, parts }: Selection): string {
  const name = (text: string): string => JSON.stringify(text);
  const kinds = [...new Set(parts.map((part) => part.kind))].sort();
  return [
    "import veracity",
    `from veracity.results import ${[...kinds, "select"].join(", ")}`,
    "",
    `run = veracity.Result(${name(folder)})`,
    `# the numbers of the selected samples: ${n.toLocaleString("en")}`,
    "selected = select(",
    "    run,",
    ...parts.map((part) => `    ${part.python},`),
    ")",
    `samples = run.samples(${name(score)})`,
    `chosen = samples[(samples["model"] == ${name(model)}) & (samples["explainer"] == ${name(explainer)}) & samples["sample"].isin(selected)]`,
  ].join("\n");
}
