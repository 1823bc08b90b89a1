// The page: which view is shown, what the server did in the last minutes, whether it answers.

import { Chart } from "./charts.js";
import { $, ask, bytes, bytesPerSecond, count, duration, h, nanoseconds, percent, perSecond, some, times, whole } from "./words.js";
import { Tree } from "./tree.js";
import { Keys } from "./keys.js";

const KEPT_MS = 10 * 60 * 1000;
const state = { rows: [], columns: [], next: 0, minutes: 5, isPaused: false, view: "overview", stats: null };

// ── Colours ──────────────────────────────────────────────────────────────────

const THEMES = ["auto", "light", "dark"];

function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const words = { auto: "system", light: "light", dark: "dark" }[theme];
  $("theme").setAttribute("aria-label", `Colours: ${words}`);
  $("theme").title = `Colours: ${words}`;
  $("theme").textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
}

let theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
paint(theme);
$("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  localStorage.setItem("theme", theme);
  paint(theme);
});

// ── Charts ───────────────────────────────────────────────────────────────────

const line = (name, label, color) => ({ name, label, color });

const charts = [
  new Chart({ title: "Throughput", note: "store operations", show: perSecond, series: [line("writes_per_s", "writes", "c1"), line("reads_per_s", "reads", "c2"), line("scanned_per_s", "keys scanned", "c3")] }),
  new Chart({ title: "Read latency", note: "per call", scale: "log", show: nanoseconds, series: [line("read_p50_ns", "p50", "c2"), line("read_p99_ns", "p99", "c4"), line("read_p999_ns", "p99.9", "c5")] }),
  new Chart({ title: "Commit latency", scale: "log", show: nanoseconds, series: [line("commit_p50_ns", "p50", "c2"), line("commit_p99_ns", "p99", "c4"), line("commit_p999_ns", "p99.9", "c5")] }),
  new Chart({ title: "Written to the device", kind: "area", step: 1024, show: bytesPerSecond, series: [line("written_bytes_log_per_s", "log", "c1"), line("written_bytes_incorporate_per_s", "memtables", "c2"), line("written_bytes_compact_per_s", "compactions", "c4"), line("written_bytes_other_per_s", "other", "c6")] }),
  new Chart({ title: "Read from the device", kind: "area", step: 1024, show: bytesPerSecond, series: [line("read_bytes_lookup_per_s", "lookups", "c1"), line("read_bytes_scan_per_s", "scans", "c3"), line("read_bytes_compact_per_s", "compactions", "c4"), line("read_bytes_other_per_s", "other", "c6")] }),
  new Chart({ title: "Memory by owner", kind: "area", step: 1024, show: bytes, series: [line("memory_memtables_bytes", "memtables", "c1"), line("memory_log_bytes", "log", "c5"), line("memory_pages_bytes", "pages", "c2"), line("memory_records_bytes", "records", "c3"), line("memory_tree_bytes", "tree", "c4"), line("memory_tables_bytes", "tables", "c6")] }),
  new Chart({ title: "Cache hit rates", most: 1, show: percent, series: [line("page_hit_rate", "pages", "c2"), line("record_hit_rate", "records", "c3")] }),
  new Chart({ title: "Compaction debt", kind: "area", step: 1024, show: bytes, series: [line("running_bytes", "running", "c2"), line("pending_bytes", "pending", "c4")] }),
  new Chart({ title: "Write delays", note: "seconds of delay per second, over all writers", show: (value) => (value == null ? "–" : `${value.toFixed(2)} s`), series: [line("delayed_share", "delay", "c5")] }),
  new Chart({ title: "Clients", note: "commands", show: perSecond, series: [line("commands_per_s", "commands", "c1"), line("errors_per_s", "errors", "c5")] }),
  new Chart({ title: "Network", step: 1024, show: bytesPerSecond, series: [line("received_bytes_per_s", "received", "c1"), line("sent_bytes_per_s", "sent", "c2")] }),
  new Chart({ title: "Space", step: 1024, show: bytes, series: [line("space_live_bytes", "live data", "c2"), line("space_file_bytes", "data files", "c4"), line("log_live_bytes", "log", "c1")] }),
];
$("charts").append(...charts.map((chart) => chart.element));

function drawCharts() {
  const end = state.rows.at(-1)?.at ?? Date.now();
  for (const chart of charts) chart.update(state.rows, state.minutes * 60000, end);
}

// ── Tiles and tables ─────────────────────────────────────────────────────────

export function tiles(into, list) {
  if (into.childElementCount !== list.length) {
    into.replaceChildren(...list.map(() => h("div", { class: "tile" }, h("span"), h("strong"), h("small"))));
  }
  list.forEach(([label, value, note, mood], index) => {
    const tile = into.children[index];
    tile.className = `tile${mood ? ` ${mood}` : ""}`;
    [label, value, note ?? ""].forEach((text, part) => {
      if (tile.children[part].textContent !== text) tile.children[part].textContent = text;
    });
  });
}

function drawTiles() {
  const { figures: f, server, recent: r, process, disk } = state.stats;
  const share = processorShare();
  const now = r ?? {};
  const isHeld = (now.delayed_share ?? 0) > 0.05 || (now.waits_per_s ?? 0) > 0;
  tiles($("tiles"), [
    ["Writes", perSecond(now.writes_per_s), `${bytesPerSecond(now.user_written_bytes_per_s)} of user data`],
    ["Reads", perSecond(now.reads_per_s), `${perSecond(now.device_reads_per_s)} reach the device`],
    ["Commit p99", nanoseconds(now.commit_p99_ns), `p50 ${nanoseconds(now.commit_p50_ns)}`],
    ["Read p99", nanoseconds(now.read_p99_ns), `p50 ${nanoseconds(now.read_p50_ns)}`],
    ["Write amplification", times(f["amplification.write"]), now.write_amplification == null ? "since opening, log included" : `${times(now.write_amplification)} in the last second`],
    ["Read amplification", f["amplification.read"] == null ? "–" : f["amplification.read"].toFixed(3), "device reads per key"],
    ["Space amplification", times(f["amplification.space"]), `${bytes(f["space.live_bytes"])} live`],
    ["Memory", bytes(process.used_memory_bytes), `of ${bytes(f["memory.budget"])}`],
    ["Resident memory", process.resident_bytes == null ? "–" : bytes(process.resident_bytes), process.system_memory_bytes == null ? "" : `of the system's ${bytes(process.system_memory_bytes)}`],
    ["Processor use", share == null ? "–" : percent(share), "of one processor"],
    ["Free disk space", disk == null ? "–" : bytes(disk.free_bytes), disk == null ? "" : `of ${bytes(disk.total_bytes)}`],
    ["Compaction debt", bytes((f["debt.pending_bytes"] ?? 0) + (f["debt.running_bytes"] ?? 0)), `${some((f["debt.pending_jobs"] ?? 0) + (f["debt.running_jobs"] ?? 0), "compaction")}, ${some(f["debt.sealed_memtables"], "memtable")}`],
    ["Back-pressure", isHeld ? "delaying writers" : "none", `${whole(f["work.waits"])} stops since opening`, isHeld ? "warn" : ""],
    ["Connections", whole(server.connections), `${count(server.commands)} commands`],
    ["Page cache", percent(f["cache.pages.hit_rate"]), `records ${percent(f["cache.records.hit_rate"])}`],
  ]);
}

// The verdict in words. It is written anew only when it changes, so that it is read out once.
function drawHealth() {
  const { health } = state.stats;
  const text = JSON.stringify(health);
  if ($("health").dataset.shown === text) return;
  $("health").dataset.shown = text;
  $("health").className = `card health ${health.level}`;
  $("health").replaceChildren(
    h("h2", null, health.words),
    h("ul", null, health.findings.map((finding) => h("li", { class: finding.level }, h("strong", null, finding.what), ` ${finding.advice}`))));
}

// The share of one processor that was used since the last look.
let processorBefore = null;
function processorShare() {
  const { process, uptime_ms: at } = state.stats;
  const used = process.processor_user_us + process.processor_system_us;
  const before = processorBefore;
  processorBefore = { at, used };
  return before && at > before.at ? (used - before.used) / 1000 / (at - before.at) : null;
}

function drawPurposes() {
  const f = state.stats.figures;
  const names = [...new Set(Object.keys(f).filter((name) => name.startsWith("device.")).map((name) => name.split(".")[1]))];
  const of = (name, what) => f[`device.${name}.${what}`] ?? 0;
  const used = names.filter((name) => of(name, "reads") + of(name, "writes") + of(name, "syncs") > 0);
  const most = Math.max(1, ...used.flatMap((name) => [of(name, "read_bytes"), of(name, "written_bytes")]));
  const meter = (value) => h("td", { class: "number" }, h("i", { class: "meter", style: { width: `${(100 * value) / most}%` } }), h("span", null, bytes(value)));
  $("purposes").replaceChildren(
    h("thead", null, h("tr", null, ["purpose", "read", "written", "reads", "writes", "syncs"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))),
    h("tbody", null, used.map((name) => h("tr", null, h("th", { scope: "row" }, name), meter(of(name, "read_bytes")), meter(of(name, "written_bytes")), ["reads", "writes", "syncs"].map((what) => h("td", { class: "number" }, whole(of(name, what))))))));
}

// What the model of the structure says, and what was measured: since opening, and in the last hours.
const QUANTITIES = { write_amplification: ["Write amplification", times], reads_hit: ["Reads, key found", (value) => value?.toFixed(3) ?? "–"], reads_miss: ["Reads, key absent", (value) => value?.toFixed(3) ?? "–"], memory_bytes_per_key: ["Memory per key", bytes], space_amplification: ["Space amplification", times], processor_ns: ["Processor time per operation", nanoseconds] };
const PAST_HOURS = 6;

function drawForecast(answer) {
  $("forecast-of").textContent = answer == null ? "" : `${answer.structure}, keyspace ${answer.keyspace}`;
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const row = (when) => (one) => {
    const [words, shown] = QUANTITIES[one.what] ?? [one.what, count];
    const held = one.within_band == null ? "–" : one.within_band ? "within" : "outside";
    return h("tr", null, h("th", { scope: "row" }, words), h("td", null, when), h("td", { class: "number" }, shown(one.predicted)), h("td", { class: "number" }, `${shown(one.p10)} to ${shown(one.p90)}`), h("td", { class: "number" }, shown(one.measured)), h("td", null, held));
  };
  const past = (answer?.past ?? []).slice(-PAST_HOURS).reverse();
  const rows = answer == null ? [] : [...answer.now.map(row("since opening")), ...past.flatMap((hour) => hour.was.map(row(`${clock(hour.began_ms)} to ${clock(hour.ended_ms)}`)))];
  $("forecast").replaceChildren(
    h("thead", null, h("tr", null, ["quantity", "when", "predicted", "band", "measured", "verdict"].map((name, index) => h("th", { scope: "col", class: index > 1 && index < 5 ? "number" : null }, name)))),
    h("tbody", null, rows.length ? rows : h("tr", null, h("td", { colspan: 6, class: "none" }, "no requests yet"))));
}

function drawClients(answer) {
  $("clients-count").textContent = answer.count > answer.clients.length ? `first ${answer.clients.length} of ${answer.count}` : String(answer.count);
  const row = (client) => h("tr", null, h("th", { scope: "row" }, client.peer), h("td", null, client.name), h("td", null, `db${client.database}`), h("td", null, client.last_command === "NULL" ? "–" : client.last_command), h("td", { class: "number" }, duration(client.age_ms)));
  $("clients").replaceChildren(
    h("thead", null, h("tr", null, ["address", "name", "database", "last command", "age"].map((name, index) => h("th", { scope: "col", class: index === 4 ? "number" : null }, name)))),
    h("tbody", null, answer.clients.length ? answer.clients.map(row) : h("tr", null, h("td", { colspan: 5, class: "none" }, "no connections"))));
}

function drawTransactions(answer) {
  const held = (commits) => (commits ? `data replaced by ${some(commits, "commit")}` : "nothing");
  const open = answer.transactions.map((one) => [one.number, one.isolation, one.mechanism, duration(one.age_ms), bytes(one.memory_bytes), whole(one.locks), held(one.commits_held)]);
  const kept = answer.snapshots.map((one) => [one.name, "snapshot", "kept", "–", "–", "–", held(one.commits_held)]);
  const rows = [...open, ...kept];
  const all = answer.transactions_open + answer.snapshots_kept;
  $("transactions-count").textContent = all > rows.length ? `${rows.length} of ${all}` : String(all);
  const cell = (value, index) => (index ? h("td", { class: index > 2 && index < 6 ? "number" : null }, value) : h("th", { scope: "row" }, String(value)));
  $("transactions").replaceChildren(
    h("thead", null, h("tr", null, ["id", "isolation", "mechanism", "age", "memory", "locks", "retains"].map((name, index) => h("th", { scope: "col", class: index > 2 && index < 6 ? "number" : null }, name)))),
    h("tbody", null, rows.length ? rows.map((row) => h("tr", null, row.map(cell))) : h("tr", null, h("td", { colspan: 7, class: "none" }, "no open transactions or snapshots"))));
}

// ── What the server says ─────────────────────────────────────────────────────

function heard(error) {
  const pill = $("state");
  pill.className = `pill ${error ? "bad" : state.isPaused ? "still" : "good"}`;
  const words = !error ? (state.isPaused ? "paused" : "live") : error.status === 401 ? "password needed" : error.status ? error.message : "server not reachable";
  if (pill.lastElementChild.textContent !== words) pill.lastElementChild.textContent = words;
}

async function loadHistory() {
  const answer = await ask(`/api/history?after=${state.next}`);
  // Another life of the server counts from zero again.
  if (answer.next < state.next) Object.assign(state, { rows: [], next: 0 });
  state.next = answer.next;
  for (const { at_ms: at, row } of answer.rows) {
    state.rows.push({ at, values: Object.fromEntries(answer.columns.map((name, index) => [name, row[index]])) });
  }
  const oldest = (state.rows.at(-1)?.at ?? 0) - KEPT_MS;
  while (state.rows.length && state.rows[0].at < oldest) state.rows.shift();
}

let turn = 0;
let looking = null;

// One look at a time: whoever asks meanwhile gets the one that is under way.
function look() {
  looking ??= lookOnce().finally(() => {
    looking = null;
  });
  return looking;
}

async function lookOnce() {
  try {
    if (!state.isPaused && document.visibilityState === "visible") {
      const [stats] = await Promise.all([ask("/api/stats"), loadHistory()]);
      state.stats = stats;
      $("facts").textContent = `${stats.version} · up ${duration(stats.uptime_ms)} · ${stats.durability}`;
      if (state.view === "overview") {
        drawHealth();
        drawTiles();
        drawCharts();
        if (turn % 3 === 0) drawPurposes();
        if (turn % 3 === 0) drawClients(await ask("/api/clients"));
        if (turn % 3 === 0) drawTransactions(await ask("/api/transactions"));
        if (turn % 30 === 0) drawForecast(await ask("/api/forecast"));
      }
      if (state.view === "tree" && turn % 2 === 0) await tree.load(stats);
      turn += 1;
    }
    heard(null);
  } catch (error) {
    heard(error);
  }
}

async function follow() {
  for (;;) {
    await look();
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// ── Views ────────────────────────────────────────────────────────────────────

const tree = new Tree(tiles);
const keys = new Keys();
const VIEWS = ["overview", "tree", "keys"];

function show() {
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  state.view = VIEWS.includes(view) ? view : "overview";
  for (const name of VIEWS) $(name).hidden = name !== state.view;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = state.view === "overview" ? "Alluvium" : `${state.view[0].toUpperCase()}${state.view.slice(1)} · Alluvium`;
  turn = 0;
  if (state.view === "keys") keys.enter(rest).catch(heard);
  look();
}

addEventListener("hashchange", show);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
for (const button of document.querySelectorAll("[data-minutes]")) {
  button.addEventListener("click", () => {
    state.minutes = Number(button.dataset.minutes);
    for (const other of document.querySelectorAll("[data-minutes]")) other.setAttribute("aria-pressed", String(other === button));
    drawCharts();
  });
}
$("pause").addEventListener("click", () => {
  state.isPaused = !state.isPaused;
  $("pause").setAttribute("aria-pressed", String(state.isPaused));
  $("pause").textContent = state.isPaused ? "Resume" : "Pause";
  heard(null);
});
show();
follow();
