// The browser of keys: keyspaces, pages of keys that begin with something, values as text and in hexadecimal.

import { $, ask, bytes, bytesOf, count, duration, escaped, h, hexDump, inAddress, some, whole } from "./words.js";

const PAGE = 50, PIECE = 65536;

const TYPES = { bytes: "bytes", item: "memcached item", string: "string", list: "list", set: "set", zset: "sorted set", hash: "hash" };

const isText = (all) => !/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(new TextDecoder().decode(all)) && !new TextDecoder().decode(all).includes("\ufffd");

export class Keys {
  constructor() {
    this.space = null;
    this.starts = [];
    this.selected = -1;
    this.form = "auto";
    $("spaces-again").addEventListener("click", () => this.loadSpaces().catch((error) => this.say(error.message)));
    $("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.open();
    });
    $("page-first").addEventListener("click", () => this.turn(() => [null]));
    $("page-before").addEventListener("click", () => this.turn((starts) => starts.slice(0, -1)));
    $("page-next").addEventListener("click", () => this.turn((starts) => [...starts, this.next]));
    $("keys-table").addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key === "/" && !isTyping && !$("keys").hidden) {
        event.preventDefault();
        $("prefix").focus();
      }
    });
    this.empty("Choose a key to see its value.");
  }

  // The view is shown; the words of the address name a keyspace.
  async enter([name]) {
    this.wanted = name ? decodeURIComponent(name) : null;
    if (!this.spaces) await this.loadSpaces();
    else if (this.wanted && this.wanted !== this.label(this.space)) this.choose(this.find(this.wanted) ?? this.space);
  }

  label(space) {
    return space ? (space.database === undefined ? space.name : `${space.name} db${space.database}`) : null;
  }

  find(label) {
    return this.spaces.find((space) => this.label(space) === label);
  }

  async loadSpaces() {
    const { keyspaces } = await ask("/api/keyspaces");
    this.spaces = keyspaces.flatMap((space) => [
      ...(space.databases ?? []).map((one) => ({ name: space.name, database: one.database, keys: one.approximate_keys })),
      { name: space.name, keys: space.approximate_keys, bytes: space.bytes, isInner: space.databases !== undefined },
    ]);
    const before = this.label(this.space) ?? this.wanted;
    // Where people begin: the fullest.
    const fullest = this.spaces.filter((space) => !space.isInner).sort((a, b) => b.keys - a.keys)[0];
    await this.choose(this.find(before) ?? fullest ?? this.spaces[0] ?? null);
  }

  drawSpaces() {
    const button = (space) => h("li", null, h("button", { type: "button", "aria-current": space === this.space ? "true" : null, click: () => this.choose(space) },
      h("span", null, this.label(space), space.isInner ? h("small", null, " as stored") : null),
      h("small", null, `≈ ${count(space.keys)} keys${space.bytes === undefined ? "" : `, ${bytes(space.bytes)}`}`)));
    $("spaces").replaceChildren(...(this.spaces.length ? this.spaces.map(button) : [h("li", { class: "none" }, "The store has no keyspaces yet.")]));
  }

  choose(space) {
    this.space = space;
    this.drawSpaces();
    if (space) history.replaceState(null, "", `#/keys/${encodeURIComponent(this.label(space))}`);
    return this.open();
  }

  // The words that say where: for an address.
  where() {
    const { name, database } = this.space;
    return `keyspace=${encodeURIComponent(name)}${database === undefined ? "" : `&database=${database}`}`;
  }

  prefix() {
    const text = $("prefix").value;
    if ($("prefix-form").value === "text") return new TextEncoder().encode(text);
    const digits = text.replace(/\s+/g, "");
    if (!/^([0-9a-f]{2})*$/i.test(digits)) throw new Error("The prefix is not hexadecimal; write two digits for each byte.");
    return Uint8Array.from(digits.match(/../g) ?? [], (code) => parseInt(code, 16));
  }

  open() {
    return this.turn(() => [null]);
  }

  // Another page: where all pages up to it begin.
  async turn(change) {
    if (!this.space) return this.say("The store has no keyspaces yet.");
    try {
      const starts = change(this.starts);
      const start = starts.at(-1);
      const address = `/api/keys?${this.where()}&prefix=${inAddress(this.prefix())}&limit=${PAGE}${start ? `&after=${inAddress(start)}` : ""}`;
      this.request?.abort();
      this.request = new AbortController();
      const answer = await ask(address, this.request.signal);
      this.starts = starts;
      this.list = answer.keys;
      this.next = answer.next ? bytesOf(answer.next, "key") : null;
      this.selected = -1;
      this.draw();
      this.empty("Choose a key to see its value.");
    } catch (error) {
      if (error.name !== "AbortError") this.say(error.message);
    }
  }

  say(text) {
    $("keys-note").textContent = text;
  }

  draw() {
    const shown = (one) => {
      if (one.count !== undefined) return h("td", { class: "faint" }, some(one.count, "element"));
      const value = bytesOf(one, "value");
      return h("td", { class: "mono" }, escaped(value), one.is_cut ? h("span", { class: "faint" }, " …") : null);
    };
    const row = (one, index) => h("tr", { tabindex: index === 0 ? "0" : "-1", "data-row": index, click: () => this.pick(index) },
      h("th", { scope: "row", class: "mono" }, escaped(bytesOf(one, "key")) || h("span", { class: "faint" }, "(empty key)")),
      h("td", { class: "faint" }, TYPES[one.type] ?? one.type),
      h("td", { class: "number" }, one.bytes === undefined ? "–" : bytes(one.bytes)),
      shown(one));
    $("keys-table").replaceChildren(
      h("thead", null, h("tr", null, ["key", "type", "size", "value"].map((name, index) => h("th", { scope: "col", class: index === 2 ? "number" : null }, name)))),
      h("tbody", null, this.list.length ? this.list.map(row) : h("tr", null, h("td", { colspan: 4, class: "none" }, "No key matches."))));
    this.say("");
    $("page-number").textContent = `page ${this.starts.length}`;
    $("page-first").disabled = $("page-before").disabled = this.starts.length <= 1;
    $("page-next").disabled = !this.next;
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = event.target.closest?.("[data-row]");
    if (!row) return;
    if (step) {
      event.preventDefault();
      const next = $("keys-table").querySelector(`[data-row="${Number(row.dataset.row) + step}"]`);
      next?.focus();
      if (next) this.pick(Number(next.dataset.row));
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.pick(Number(row.dataset.row));
    }
  }

  empty(text) {
    $("value").replaceChildren(h("h2", null, "Value"), h("p", { class: "hint" }, text));
  }

  async pick(index) {
    this.selected = index;
    for (const row of $("keys-table").querySelectorAll("[data-row]")) {
      const isIt = Number(row.dataset.row) === index;
      row.setAttribute("aria-selected", String(isIt));
      row.tabIndex = isIt ? 0 : -1;
    }
    await this.value(bytesOf(this.list[index], "key"), 0);
  }

  async value(key, offset) {
    this.request?.abort();
    this.request = new AbortController();
    try {
      const limit = this.list[this.selected]?.count === undefined ? PIECE : 100;
      const answer = await ask(`/api/value?${this.where()}&key=${inAddress(key)}&offset=${offset}&limit=${limit}`, this.request.signal);
      this.drawValue(key, answer, limit);
    } catch (error) {
      if (error.name !== "AbortError") this.empty(error.message);
    }
  }

  drawValue(key, answer, limit) {
    const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];
    const facts = h("dl", null,
      fact("type", TYPES[answer.type] ?? answer.type),
      answer.bytes === undefined ? fact("elements", whole(answer.count)) : fact("size", `${bytes(answer.bytes)}${answer.bytes >= 1024 ? ` (${whole(answer.bytes)} bytes)` : ""}`),
      answer.flags === undefined ? [] : fact("flags", whole(answer.flags)),
      answer.expires_ms === undefined ? [] : fact("expires", `${new Date(answer.expires_ms).toLocaleString("en-GB")}, in ${duration(Math.max(0, answer.expires_ms - Date.now()))}`));
    const body = answer.elements ? this.elements(answer) : this.body(answer);
    const step = (word, to, isThere) => h("button", { type: "button", disabled: !isThere, click: () => this.value(key, to) }, word);
    const isPart = answer.offset > 0 || answer.is_cut;
    $("value").replaceChildren(
      h("h2", { class: "mono name" }, escaped(key) || "(empty key)"),
      facts,
      ...body,
      isPart ? h("div", { class: "pages" }, step("Previous", Math.max(0, answer.offset - limit), answer.offset > 0), h("span", null, `from ${whole(answer.offset)}`), step("Next", answer.offset + limit, answer.is_cut)) : "",
      answer.elements ? "" : h("p", null, h("a", { class: "button", href: `/api/value/raw?${this.where()}&key=${inAddress(key)}`, download: "value" }, "Download")));
  }

  // A value, as text or in hexadecimal: what fits it, until somebody chooses.
  body(answer) {
    const value = bytesOf(answer, "value");
    const pre = h("pre", { tabindex: "0", "aria-label": "The value" });
    const buttons = ["text", "hex"].map((form) => h("button", { type: "button", "data-form": form, click: () => {
      this.form = form;
      draw();
    } }, form));
    const draw = () => {
      const form = this.form === "auto" ? (isText(value) ? "text" : "hex") : this.form;
      // Text keeps its lines here; everything else that cannot be seen is escaped.
      pre.textContent = form === "hex" ? hexDump(value, answer.offset) : escaped(value, "\n\t\\");
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.form === form));
    };
    draw();
    return [h("div", { class: "choice", role: "group", "aria-label": "Format of the value" }, buttons), pre];
  }

  elements(answer) {
    const columns = { list: ["value"], set: ["member"], hash: ["field", "value"], zset: ["member", "score"] }[answer.type] ?? [];
    const cell = (one, name) => (name === "score" ? h("td", { class: "number" }, one.score) : h("td", { class: "mono" }, escaped(bytesOf(one, name))));
    return [h("div", { class: "scroll" }, h("table", null,
      h("thead", null, h("tr", null, columns.map((name) => h("th", { scope: "col", class: name === "score" ? "number" : null }, name)))),
      h("tbody", null, answer.elements.map((one) => h("tr", null, columns.map((name) => cell(one, name)))))))];
  }
}
