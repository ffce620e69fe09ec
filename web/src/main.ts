import "./style/base.css";
import "./style/orbit.css";
import "./style/pages.css";
import "./style/audit.css";
import { App } from "./app";
import { takeKeysInFrame } from "./framed";
import { sentencePage } from "./page";
import type { DataSource } from "./source";
import { Embedded } from "./sources/embedded";
import { Server } from "./sources/server";

/** The payload of the file, or the server that the address names. */
function source(): DataSource | null {
  const payload = document.getElementById("payload")?.textContent;
  if (payload) return new Embedded(JSON.parse(payload) as ConstructorParameters<typeof Embedded>[0]);
  const token = new URLSearchParams(location.search).get("token");
  return token ? new Server(token) : null;
}

takeKeysInFrame();
const host = document.getElementById("app");
const found = source();
if (host !== null && found !== null) new App(host, found).start();
else host?.append(sentencePage("error", "The token is missing", "Open the whole address that `veracity app` printed: it ends with ?token=….").node);
