// Numbers and bytes as people read them, and elements of the page.

const STEPS = { bytes: [1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]], count: [1000, ["", "k", "M", "G", "T", "P"]] };

function scaled(value, [step, units]) {
  let unit = 0;
  let size = Math.abs(value);
  while (size >= step * 0.9995 && unit + 1 < units.length) {
    size /= step;
    unit += 1;
  }
  const digits = unit === 0 && Number.isInteger(size) ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)}${units[unit] ? " " + units[unit] : ""}`;
}

export const bytes = (value) => (value == null ? "–" : scaled(value, STEPS.bytes));
export const count = (value) => (value == null ? "–" : scaled(value < 0.005 ? 0 : value, STEPS.count));
export const whole = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));
export const some = (number, word, words = `${word}s`) => `${whole(number)} ${Math.round(number) === 1 ? word : words}`;
export const percent = (value) => (value == null ? "–" : `${(100 * value).toFixed(value >= 0.9995 || value < 0.0005 ? 0 : 1)} %`);
export const times = (value) => (value == null ? "–" : `${value.toFixed(2)} ×`);
export const perSecond = (value) => (value == null ? "–" : `${count(value)}/s`);
export const bytesPerSecond = (value) => (value == null ? "–" : `${bytes(value)}/s`);

export function nanoseconds(value) {
  if (value == null) return "–";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (value >= size * 0.9995) return `${(value / size).toFixed(value / size < 9.995 ? 2 : value / size < 99.95 ? 1 : 0)} ${unit}`;
  }
  return `${Math.round(value)} ns`;
}

export function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// An element: its attributes (a function listens, `style` is an object), and what is in it.
function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => made(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
export const $ = (id) => document.getElementById(id);

// What the server says to an address; its own words when it refuses.
export async function ask(address, signal) {
  const answer = await fetch(address, { headers: { accept: "application/json" }, signal });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.error ?? `the server answered with status ${answer.status}`), { status: answer.status });
  return body;
}

// Bytes of a field that is text, or base 64 where it is none.
export function bytesOf(object, name) {
  if (object[name] !== undefined) return new TextEncoder().encode(object[name]);
  const code = object[`${name}_base64`];
  return code === undefined ? new Uint8Array() : Uint8Array.from(atob(code), (c) => c.charCodeAt(0));
}

// Bytes for an address.
export const inAddress = (all) => Array.from(all, (byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");

const DECODER = new TextDecoder("utf-8", { fatal: true });

// Text as it is; what is no text or could not be seen as \n or \xff. `kept` characters stay as they are.
export function escaped(all, kept = "") {
  let text = "";
  for (let at = 0; at < all.length; ) {
    const length = all[at] < 0x80 ? 1 : all[at] < 0xe0 ? 2 : all[at] < 0xf0 ? 3 : 4;
    let character = null;
    try {
      character = DECODER.decode(all.subarray(at, at + length));
    } catch {
      // A byte that is no text.
    }
    if (character === null || character === "") {
      text += hexEscape(all[at]);
      at += 1;
    } else {
      text += kept.includes(character) ? character : escapedCharacter(character);
      at += length;
    }
  }
  return text;
}

const hexEscape = (byte) => `\\x${byte.toString(16).padStart(2, "0")}`;

function escapedCharacter(character) {
  const known = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" }[character];
  if (known) return known;
  // Controls, and what changes the direction or cannot be seen.
  return /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u.test(character)
    ? Array.from(new TextEncoder().encode(character), hexEscape).join("")
    : character;
}

// Bytes in rows of 16, with their offsets and what of them is printable.
export function hexDump(all, offset) {
  const lines = [];
  for (let at = 0; at < all.length; at += 16) {
    const row = Array.from(all.subarray(at, at + 16));
    const codes = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const halves = [codes.slice(0, 8).join(" "), codes.slice(8).join(" ")].join("  ").padEnd(48);
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${(offset + at).toString(16).padStart(8, "0")}  ${halves}  ${text}`);
  }
  return lines.join("\n");
}
