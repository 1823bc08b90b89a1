// Charts of the last minutes, in SVG: lines, or areas that stand on each other.

import { h, s } from "./words.js";

const LEFT = 70, RIGHT = 10, TOP = 8, BOTTOM = 20, HEIGHT = 168;

// Round numbers from zero to at least `most`.
function ticks(most, step) {
  if (!(most > 0)) return [0, 1];
  const base = step === 1024 ? 2 : 10;
  const power = base ** Math.floor(Math.log(most / 4) / Math.log(base) + 1e-9);
  const choices = step === 1024 ? [1, 2, 4] : [1, 2, 2.5, 5, 10];
  const unit = choices.map((choice) => choice * power).find((one) => most / one <= 4.001) ?? 10 * power;
  const list = [];
  for (let value = 0; list.length < 7; value += unit) {
    list.push(value);
    if (value >= most * 0.999) break;
  }
  return list;
}

function decades(least, most) {
  const low = Math.floor(Math.log10(Math.max(least, 1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(most, 1))));
  return Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
}

export class Chart {
  // `series`: [{ name, label, color }]; `show` prints a value; `kind`: "line", "area"; `scale`: "linear", "log"; `step`: 1000 or 1024; `most`: a fixed top.
  constructor({ title, note, series, show, kind = "line", scale = "linear", step = 1000, most = null }) {
    Object.assign(this, { title, series, show, kind, scale, step, most });
    this.rows = [];
    this.at = null;
    this.svg = s("svg", { role: "img", tabindex: "0", height: HEIGHT, class: "plot" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.values = series.map(() => h("b", null, "–"));
    const legend = series.map((one, index) => h("li", null, h("i", { class: `swatch ${one.color}` }), one.label, " ", this.values[index]));
    this.element = h("figure", { class: "card chart" },
      h("figcaption", null, h("h2", null, title, note ? h("small", null, ` ${note}`) : null)),
      h("div", { class: "stage" }, this.svg, this.tip),
      h("ul", { class: "legend" }, legend));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => this.leave());
    this.svg.addEventListener("blur", () => this.leave());
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  // Rows are { at, values: name → number or null }, oldest first; `span` is the milliseconds that are shown, up to `end`.
  update(rows, span, end) {
    this.rows = rows;
    this.span = span;
    this.end = end;
    const last = rows.at(-1);
    this.series.forEach((one, index) => {
      this.values[index].textContent = this.show(last ? last.values[one.name] : null);
    });
    const said = this.series.map((one, index) => `${one.label} ${this.values[index].textContent}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}: ${said}`);
    this.draw();
  }

  x(at) {
    return LEFT + (this.width - LEFT - RIGHT) * (1 - (this.end - at) / this.span);
  }

  y(value) {
    const height = HEIGHT - TOP - BOTTOM;
    const part = this.scale === "log"
      ? (Math.log10(Math.max(value, this.low)) - Math.log10(this.low)) / (Math.log10(this.high) - Math.log10(this.low))
      : value / this.high;
    return TOP + height * (1 - Math.min(Math.max(part, 0), 1));
  }

  draw() {
    this.width = this.svg.clientWidth;
    if (!this.width || !this.span) return;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const start = this.end - this.span;
    const rows = this.rows.filter((row) => row.at >= start - 2000);
    const numbers = rows.flatMap((row) => this.kind === "area"
      ? [this.series.reduce((sum, one) => sum + (row.values[one.name] ?? 0), 0)]
      : this.series.map((one) => row.values[one.name]).filter((value) => value != null));
    const top = this.most ?? Math.max(0, ...numbers);
    let marks;
    if (this.scale === "log") {
      const positive = numbers.filter((value) => value > 0);
      marks = decades(Math.min(...(positive.length ? positive : [1e3])), Math.max(...(positive.length ? positive : [1e6])));
      this.low = marks[0];
    } else {
      marks = ticks(top, this.step);
    }
    this.high = marks.at(-1);
    const parts = [];
    for (const mark of marks) {
      const y = Math.round(this.y(mark)) + 0.5;
      parts.push(s("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }));
      parts.push(s("text", { class: "axis", x: LEFT - 6, y: y + 3.5, "text-anchor": "end" }, this.show(mark)));
    }
    parts.push(...this.times(start));
    parts.push(...(this.kind === "area" ? this.areas(rows) : this.lines(rows)));
    this.svg.replaceChildren(...parts);
    this.cross();
  }

  times(start) {
    const minutes = this.span / 60000;
    const every = (minutes <= 1.5 ? 15 : minutes <= 6 ? 60 : 120) * 1000;
    const parts = [];
    for (let at = Math.ceil(start / every) * every; at <= this.end; at += every) {
      const x = this.x(at);
      const time = new Date(at).toLocaleTimeString("en-GB", every < 60000 ? {} : { hour: "2-digit", minute: "2-digit" });
      if (x < LEFT + 14 || x > this.width - RIGHT - 14) continue;
      parts.push(s("text", { class: "axis", x, y: HEIGHT - 5, "text-anchor": "middle" }, time));
    }
    return parts;
  }

  lines(rows) {
    return this.series.map((one) => {
      let path = "";
      let isOpen = false;
      let before = null;
      for (const row of rows) {
        const value = row.values[one.name];
        // A gap where there was nothing, or where nobody looked.
        if (value == null || (before !== null && row.at - before > 5000)) isOpen = false;
        if (value != null) {
          const [x, y] = [this.x(row.at).toFixed(1), this.y(value).toFixed(1)];
          path += isOpen ? `L${x} ${y}` : `M${x} ${y}h.01`;
          isOpen = true;
        }
        before = row.at;
      }
      return s("path", { class: `line ${one.color}`, d: path || "M0 0" });
    });
  }

  areas(rows) {
    let floor = rows.map(() => 0);
    return this.series.map((one) => {
      const top = rows.map((row, index) => floor[index] + (row.values[one.name] ?? 0));
      const point = (index, value) => `${this.x(rows[index].at).toFixed(1)} ${this.y(value).toFixed(1)}`;
      const there = top.map((value, index) => point(index, value));
      const back = floor.map((value, index) => point(index, value)).reverse();
      floor = top;
      return s("path", { class: `area ${one.color}`, d: rows.length ? `M${[...there, ...back].join("L")}Z` : "M0 0" });
    });
  }

  point(x) {
    const at = this.end - this.span * (1 - (x - LEFT) / (this.width - LEFT - RIGHT));
    const shown = this.rows.filter((row) => row.at >= this.end - this.span);
    if (!shown.length) return;
    const nearest = shown.reduce((best, row) => (Math.abs(row.at - at) < Math.abs(best.at - at) ? row : best));
    this.at = nearest.at;
    this.cross();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") return this.leave();
    if (!step) return;
    event.preventDefault();
    const shown = this.rows.filter((row) => row.at >= this.end - this.span);
    const now = this.at === null ? shown.length : shown.findIndex((row) => row.at === this.at);
    const next = shown[Math.min(Math.max(now + step, 0), shown.length - 1)];
    if (next) this.at = next.at;
    this.cross();
  }

  leave() {
    this.at = null;
    this.cross();
  }

  // The moment that is pointed at, and its numbers.
  cross() {
    this.svg.querySelector(".cross")?.remove();
    const row = this.at === null ? null : this.rows.find((one) => one.at === this.at);
    this.tip.hidden = !row;
    if (!row) return;
    const x = this.x(row.at);
    this.svg.append(s("line", { class: "cross", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    const lines = this.series.map((one) => h("li", null, h("i", { class: `swatch ${one.color}` }), one.label, " ", h("b", null, this.show(row.values[one.name]))));
    this.tip.replaceChildren(h("time", null, new Date(row.at).toLocaleTimeString("en-GB")), h("ul", null, lines));
    const isRight = x > this.width / 2;
    this.tip.style.left = isRight ? "auto" : `${x + 10}px`;
    this.tip.style.right = isRight ? `${this.width - x + 10}px` : "auto";
  }
}
