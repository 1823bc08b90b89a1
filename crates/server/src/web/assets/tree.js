// A picture of the trunk: a row for each level, a cell for each pivot, in it its own runs and the bundles that are live for it.

import { $, ask, bytes, bytesOf, count, escaped, h, percent, s, some, whole } from "./words.js";

const BAND = 6, GAP = 2, PAD = 5, ROW_GAP = 22, LEAST = 34;

const key = (one) => (one === undefined ? "the end" : `${one.keyspace === undefined ? "" : `${one.keyspace} `}“${short(escaped(bytesOf(one, "key")))}”`);
const short = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
const sum = (layers, name) => layers.reduce((all, layer) => all + layer[name], 0);
const runs = (layers) => layers.reduce((all, layer) => all + layer.runs.length, 0);
const leaves = (node) => (node.height === 0 ? 1 : node.pivots.reduce((all, pivot) => all + (pivot.child ? leaves(pivot.child) : 1), 0));

export class Tree {
  constructor(tiles) {
    this.tiles = tiles;
    this.path = [];
    this.selected = null;
    this.pinned = null;
    this.box = $("tree-picture");
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("pointerover", (event) => this.hover(event));
    this.box.addEventListener("pointerleave", () => this.pick(this.pinned));
    this.box.addEventListener("click", (event) => this.click(event));
    this.box.addEventListener("dblclick", (event) => this.closer(event.target.closest?.("[data-cell]")?.dataset.cell));
    new ResizeObserver(() => this.answer && this.draw()).observe(this.box);
  }

  async load(stats) {
    this.answer = await ask("/api/tree");
    const root = this.answer.root;
    const all = { nodes: 0, bundles: 0, running: 0, queued: 0, records: 0, tombstones: 0, runs: 0 };
    const walk = (node) => {
      all.nodes += 1;
      all.bundles += node.bundles.length;
      for (const pivot of node.pivots) {
        if (pivot.compaction) all[pivot.compaction] += 1;
        for (const layer of [...pivot.own, ...pivot.pending]) {
          all.records += layer.records;
          all.tombstones += layer.tombstones;
        }
        if (pivot.child) walk(pivot.child);
      }
    };
    walk(root);
    this.tiles($("tree-facts"), [
      ["Height", String(this.answer.height), `version ${whole(this.answer.version)}`],
      ["Nodes", whole(all.nodes), some(leaves(root), "leaf", "leaves")],
      ["Bundles", whole(all.bundles), `≤ ${some(stats.figures["tree.runs"], "run")} per lookup`],
      ["Compactions", whole(all.running + all.queued), `${whole(all.running)} running, ${whole(all.queued)} queued`],
      ["Records", count(all.records), `${count(all.tombstones)} deletes`],
      ["Up to commit", whole(this.answer.cut), `${whole(stats.last_commit - this.answer.cut)} newer in memtables`],
    ]);
    this.levels(this.answer.levels);
    this.pages(this.answer.pages);
    this.tiers(this.answer.tiers);
    this.draw();
  }

  // Levels of runs: a row for each level of each set of options, with a bar for each run, the oldest first.
  levels(all) {
    $("levels").hidden = !all.length;
    $("levels-count").textContent = `${some(all.length, "set")} of options`;
    const most = Math.max(1, ...all.flatMap((of) => of.levels.map((level) => level.bytes)));
    const words = (run) => `run ${run.place}: ${bytes(run.bytes)}, ${bytes(run.inherited_bytes)} of them written by other runs, ${bytes(run.filter_bytes)} of its filter, ${count(run.records)} records`;
    const bars = (level) => {
      let at = 0;
      const bar = (run) => {
        const [x, width] = [at, (1000 * run.bytes) / most];
        at += width;
        return s("rect", { class: run.is_merging ? "run merging" : "run", x, y: 0, width: Math.max(width - 2, 1), height: 12 }, s("title", {}, words(run)));
      };
      return s("svg", { class: "runs", viewBox: "0 0 1000 12", preserveAspectRatio: "none" }, level.runs.slice().reverse().map(bar));
    };
    const row = (level, at) => h("tr", {}, h("th", { scope: "row" }, `level ${at}`), h("td", { class: "number" }, whole(level.run_count)), h("td", { class: "number" }, bytes(level.bytes)), h("td", {}, bars(level)));
    const title = (of) => h("tr", {}, h("th", { scope: "rowgroup", colspan: "4" }, `${of.structure}: ${of.keyspaces.join(", ") || "no keyspace"}; ${some(of.merges, "merge")} in progress, ${some(of.adopted_leaves, "leaf", "leaves")} adopted since opening`));
    $("levels-runs").replaceChildren(
      h("thead", {}, h("tr", {}, ...["Level", "Runs", "Bytes", "Runs, oldest first"].map((name, index) => h("th", { scope: "col", class: index === 1 || index === 2 ? "number" : null }, name)))),
      ...all.map((of) => h("tbody", {}, title(of), ...of.levels.map(row))),
    );
  }

  // Pages that are written in place: a row for each level of their tree, the root first.
  pages(pages) {
    $("pages").hidden = !pages;
    if (!pages) return;
    const nodes = pages.levels.reduce((all, level) => all + level.nodes, 0);
    $("pages-count").textContent = `${some(nodes + pages.value_pages, "page")} of ${bytes(pages.page_bytes)}, ${whole(pages.value_pages)} with long values, ${whole(pages.free_pages)} free`;
    const of = (has, most) => (most ? `${whole(has)} of ${whole(most)} (${percent(has / most)})` : "–");
    const row = (level, at) => h("tr", {}, h("th", { scope: "row" }, at ? `level ${at}` : "leaves"), ...[whole(level.nodes), of(level.entries, level.most_entries), of(level.messages, level.most_messages)].map((text) => h("td", {}, text)));
    $("pages-levels").replaceChildren(
      h("thead", {}, h("tr", {}, ...["Level", "Nodes", "Pairs or pivots", "Buffered messages"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...pages.levels.map(row).reverse()),
    );
  }

  // The directories of a store that has several: a row for each, then one for each of their largest runs.
  tiers(tiers) {
    $("tiers").hidden = !tiers;
    if (!tiers) return;
    $("tiers-count").textContent = `${some(tiers.length, "directory", "directories")}, fastest first`;
    const head = (names) => h("thead", {}, h("tr", {}, ...names.map((name, index) => h("th", { scope: "col", class: index > 1 ? "number" : null }, name))));
    const row = (tier) => h("tr", {}, h("th", { scope: "row" }, `${tier.tier} ${tier.directory}`), h("td", {}, tier.state),
      ...[`${tier.full_percent} % of ${bytes(tier.capacity_bytes)}`, bytes(tier.live_bytes), `${some(tier.run_count, "run")}, ${bytes(tier.run_bytes)}`, bytes(tier.filter_bytes), tier.copies_bytes ? bytes(tier.copies_bytes) : "–"].map((text) => h("td", { class: "number" }, text)));
    $("tiers-table").replaceChildren(head(["Tier", "State", "Used", "Live", "Runs", "Filters", "Copies"]), h("tbody", {}, ...tiers.map(row)));
    $("tiers-failures").textContent = tiers.map((tier) => tier.failure).filter(Boolean).join(" ");
    const run = (tier) => (one) => h("tr", {}, h("td", {}, String(tier.tier)), h("td", {}, one.name), ...[bytes(one.bytes), bytes(one.filter_bytes), count(one.records)].map((text) => h("td", { class: "number" }, text)));
    $("tiers-runs").replaceChildren(head(["Tier", "Run", "Bytes in the tier", "Filter bytes", "Records"]), h("tbody", {}, ...tiers.flatMap((tier) => tier.runs.map(run(tier)))));
  }

  // The part that is looked at: the node that the path of pivots leads to, as far as it still does.
  part() {
    let node = this.answer.root;
    const steps = [];
    for (const index of this.path) {
      const child = node.pivots[index]?.child;
      if (!child) break;
      steps.push(index);
      node = child;
    }
    this.path = steps;
    return node;
  }

  draw() {
    const part = this.part();
    const width = this.box.clientWidth - 2;
    if (width <= 0) return;
    const levels = [];
    this.cells = new Map();
    const place = (node, depth, left, right, path) => {
      (levels[depth] ??= []).push({ node, left, right, path });
      const unit = (right - left) / leaves(node);
      let at = left;
      node.pivots.forEach((pivot, index) => {
        const size = unit * (pivot.child ? leaves(pivot.child) : 1);
        if (pivot.child) place(pivot.child, depth + 1, at, at + size, [...path, index]);
        at += size;
      });
    };
    place(part, 0, 0, width, this.path);
    const parts = [];
    let y = 16;
    levels.forEach((nodes, depth) => {
      const own = Math.max(0, ...nodes.flatMap(({ node }) => node.pivots.map((pivot) => pivot.own.length)));
      const live = Math.max(0, ...nodes.map(({ node }) => node.bundles.length));
      const height = Math.max(LEAST, (own + live) * (BAND + GAP) + 2 * PAD + 2);
      const what = nodes[0].node.height === 0 ? "leaves" : depth === 0 && !this.path.length ? "root" : `height ${nodes[0].node.height}`;
      parts.push(s("text", { class: "level", x: 1, y: y - 5 }, `${what} · ${some(nodes.length, "node")}`));
      for (const one of nodes) parts.push(this.node(one, y, height, depth));
      y += height + ROW_GAP;
    });
    const svg = s("svg", { width, height: y - ROW_GAP + 4, viewBox: `0 0 ${width} ${y - ROW_GAP + 4}`, "aria-hidden": "true" }, parts);
    this.box.replaceChildren(svg);
    this.crumbs();
    this.pick(this.selected && this.cells.has(this.selected) ? this.selected : [...this.cells.keys()][0]);
  }

  node({ node, left, right, path }, y, height, depth) {
    const gap = right - left > 6 ? 1.5 : 0;
    const group = s("g", { class: "node" });
    group.append(s("rect", { class: "frame", x: left + gap, y, width: Math.max(right - left - 2 * gap, 0.5), height, rx: right - left > 12 ? 5 : 0 }));
    const most = Math.max(1, ...node.pivots.flatMap((pivot) => [...pivot.own, ...pivot.pending].map((layer) => layer.bytes)));
    const strength = (layer) => (0.3 + 0.7 * Math.log2(1 + (1023 * layer.bytes) / most) / 10).toFixed(2);
    const unit = (right - left) / leaves(node);
    let at = left;
    node.pivots.forEach((pivot, index) => {
      const size = unit * (pivot.child ? leaves(pivot.child) : 1);
      const id = [...path, index].join(".");
      const inset = size > 8 ? 2.5 : size > 3 ? 0.5 : 0;
      const [x, wide] = [at + inset + gap / 2, Math.max(size - 2 * inset - gap, 0.5)];
      const cell = s("g", { class: "cell", "data-cell": id });
      cell.append(s("rect", { class: "ground", x: at, y, width: size, height }));
      let top = y + height - PAD - BAND;
      for (const layer of pivot.own) {
        cell.append(s("rect", { class: "own", x, y: top, width: wide, height: BAND, rx: wide > 4 ? 1.5 : 0, opacity: strength(layer) }));
        top -= BAND + GAP;
      }
      const floor = top + BAND;
      // Bundles stand above each other in every cell of the node, whether they are live for it or not.
      top = y + PAD + (node.bundles.length - 1) * (BAND + GAP);
      for (const bundle of node.bundles) {
        const layers = pivot.pending.filter((layer) => layer.bundle === bundle.number);
        const weight = { bytes: sum(layers, "bytes") };
        cell.append(s("rect", layers.length
          ? { class: "pending", x, y: top, width: wide, height: BAND, rx: wide > 4 ? 1.5 : 0, opacity: weight.bytes ? strength(weight) : 0.18 }
          : { class: "done", x, y: top, width: wide, height: BAND, rx: wide > 4 ? 1.5 : 0 }));
        top -= BAND + GAP;
      }
      if (pivot.compaction) {
        const bottom = Math.max(floor, y + 12);
        cell.append(s("rect", { class: `work ${pivot.compaction}`, x: at + gap, y: y + 1.5, width: Math.max(size - 2 * gap, 1), height: Math.min(bottom - y, height - 3), rx: size > 10 ? 4 : 0 }));
      }
      group.append(cell);
      this.cells.set(id, { pivot, node, path: [...path, index], depth, middle: at + size / 2, element: cell, x: at, y, width: size, height });
      at += size;
    });
    return group;
  }

  crumbs() {
    let node = this.answer.root;
    const list = [h("button", { type: "button", disabled: !this.path.length, click: () => this.go([]) }, "whole tree")];
    this.path.forEach((index, depth) => {
      const range = node.pivots[index];
      const to = this.path.slice(0, depth + 1);
      list.push("›", h("button", { type: "button", disabled: depth + 1 === this.path.length, click: () => this.go(to) }, `from ${key(range.low)}`));
      node = range.child;
    });
    $("crumbs").replaceChildren(...list);
  }

  go(path) {
    this.path = path;
    this.selected = null;
    this.pinned = null;
    this.draw();
  }

  hover(event) {
    const cell = event.target.closest?.("[data-cell]");
    if (cell) this.pick(cell.dataset.cell);
  }

  click(event) {
    const cell = event.target.closest?.("[data-cell]");
    if (!cell) return;
    this.pinned = cell.dataset.cell;
    this.pick(this.pinned);
  }

  closer(id) {
    const cell = id && this.cells.get(id);
    if (cell?.pivot.child) this.go(cell.path);
  }

  pick(id) {
    const cell = id && this.cells?.get(id);
    if (!cell) return;
    this.selected = id;
    this.box.querySelector(".chosen")?.remove();
    this.box.firstElementChild.append(s("rect", { class: "chosen", x: cell.x + 0.5, y: cell.y - 0.5, width: Math.max(cell.width - 1, 1.5), height: cell.height + 1, rx: cell.width > 10 ? 5 : 0 }));
    this.detail(cell);
  }

  key(event) {
    const cell = this.selected && this.cells.get(this.selected);
    if (!cell) return;
    const all = [...this.cells.entries()];
    const beside = all.filter(([, other]) => other.depth === cell.depth).sort((a, b) => a[1].middle - b[1].middle);
    const at = beside.findIndex(([id]) => id === this.selected);
    const near = (depth) => all.filter(([, other]) => other.depth === depth).sort((a, b) => Math.abs(a[1].middle - cell.middle) - Math.abs(b[1].middle - cell.middle))[0];
    const next = { ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1], ArrowUp: near(cell.depth - 1), ArrowDown: near(cell.depth + 1), Home: beside[0], End: beside.at(-1) };
    if (event.key in next) {
      event.preventDefault();
      if (next[event.key]) this.pinned = next[event.key][0];
      this.pick(this.pinned);
    } else if (event.key === "Enter") {
      this.closer(this.selected);
    } else if (event.key === "Escape") {
      this.go(this.path.slice(0, -1));
    }
  }

  detail({ pivot, node, path }) {
    const row = (layer, kind) => h("tr", null,
      h("td", null, h("i", { class: `swatch ${kind}` }), kind === "own" ? "own" : `bundle ${whole(layer.bundle)}`),
      h("td", { class: "number" }, `${layer.runs.length}${layer.is_clipped ? " ✂" : ""}`),
      h("td", { class: "number" }, count(layer.records)),
      h("td", { class: "number" }, count(layer.tombstones)),
      h("td", { class: "number" }, bytes(layer.bytes)),
      h("td", { class: "number faint" }, layer.runs.map((run) => `${layer.group}.${run}`).join(" ")));
    const rows = [...[...pivot.pending].reverse().map((layer) => row(layer, "pending")), ...[...pivot.own].reverse().map((layer) => row(layer, "own"))];
    const all = [...pivot.own, ...pivot.pending];
    const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];
    $("tree-detail").replaceChildren(
      h("h2", null, node.height === 0 ? "Leaf" : `Pivot of a node at height ${node.height}`),
      h("dl", null,
        fact("from", key(pivot.low)),
        fact("up to", key(pivot.high)),
        fact("holds", `${bytes(sum(all, "bytes"))}, ${count(sum(all, "records"))} records in ${some(runs(all), "run")}`),
        fact("pending", pivot.pending.length ? `${bytes(sum(pivot.pending, "bytes"))} not compacted` : "nothing"),
        fact("compaction", pivot.compaction ?? "none"),
        pivot.child ? fact("below", some(leaves(pivot.child), "leaf", "leaves")) : []),
      rows.length
        ? h("div", { class: "scroll" }, h("table", null,
            h("thead", null, h("tr", null, ["newest first", "runs", "records", "deletes", "bytes", "run"].map((name, index) => h("th", { scope: "col", class: index ? "number" : null }, name)))),
            h("tbody", null, rows)))
        : h("p", { class: "hint" }, "This range has no runs."),
      pivot.child ? h("button", { type: "button", click: () => this.go(path) }, "Zoom in") : "",
      h("p", { class: "hint" }, "A run is named GROUP.PLACE, for example in `alluvium inspect --run`."));
  }
}
