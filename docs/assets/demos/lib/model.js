// What every demo's state is and how it changes. No DOM: `next` is a pure function.

/**
 * @typedef {object} Fault  What is wrong with a field.
 * @property {string} message  place, fault and remedy, in the reader's language
 * @property {(string | [string, string])[]} [fixes]  texts that would do, offered as buttons; with the button's words
 *
 * @typedef {object} Field  One input of the reader.
 * @property {(text: string) => any} parse  its value; throws a Fault
 * @property {(value: any) => string} show  the text of a value; parse(show(value)) is value
 *
 * @typedef {object} Demo  What a module of a demo exports.
 * @property {Record<string, Field>} fields
 * @property {{inputs: object, t?: number}[]} presets  the first is what the page shows at first
 * @property {(inputs: object) => number} steps  how many steps there are; t runs from 0 to steps - 1
 * @property {(inputs: object) => Record<string, Fault>} [check]  faults of values that are right one by one
 * @property {(inputs: object, t: number) => object} view  all that is drawn at a step, plain data
 * @property {(view: object) => string} say  the step in a sentence
 * @property {(root: Element, view: object, state: State) => void} draw
 * @property {(inputs: object, t: number, sign: 1 | -1, kind: string) => number} [stride]  where 下一步 and 上一步 lead
 * @property {(inputs: object, before: object, t: number) => number} [place]  the step to show after an input changed
 * @property {(inputs: object, guess: string) => {right: boolean, text: string, link?: {hash: string, text: string}}} [challenge]  throws a Fault
 *
 * @typedef {object} State
 * @property {object} inputs  the last valid values: what is drawn
 * @property {Record<string, string>} drafts  the fields' texts as they stand
 * @property {Record<string, Fault>} errors  by field
 * @property {number} t
 * @property {boolean} playing
 * @property {string} guess
 * @property {{right?: boolean, text: string} | null} verdict  on the guess
 */

/** Lengths S of a curve, 128 to 131,072. */
export const LENGTHS = Array.from({ length: 11 }, (_, k) => 2 ** (k + 7));

export const PLAYED = 200; // frames of a whole play at most

/** @returns {State} the state of a preset */
export function initial(demo, preset = demo.presets[0]) {
  const inputs = { ...demo.presets[0].inputs, ...preset.inputs };
  return { inputs, drafts: shown(demo, inputs), errors: {}, t: preset.t ?? 0, playing: false, guess: "", verdict: null };
}

function shown(demo, inputs) {
  return Object.fromEntries(Object.entries(demo.fields).map(([name, field]) => [name, field.show(inputs[name])]));
}

/** Steps that one tick of a play takes. */
export function playStride(n) {
  return Math.max(1, Math.ceil(n / PLAYED));
}

/** @param {Demo} demo @param {State} state @param {{type: string}} event @returns {State} */
export function next(demo, state, event) {
  const n = demo.steps(state.inputs);
  const at = (t, more = {}) => ({ ...state, playing: false, ...more, t: Math.min(Math.max(Math.trunc(t) || 0, 0), n - 1) });
  switch (event.type) {
    case "SET":
      return set(demo, state, { [event.name]: event.text });
    case "FILL": // several fields at once: from an address
      return set(demo, state, event.texts);
    case "PRESET":
      return { ...initial(demo, demo.presets[event.index]), guess: state.guess, verdict: state.verdict };
    case "SEEK":
      return at(event.t);
    case "RESET":
      return at(0);
    case "PLAY":
      return state.t >= n - 1 ? at(0, { playing: n > 1 }) : { ...state, playing: true };
    case "TICK": {
      if (!state.playing) return state;
      const t = Math.min(state.t + playStride(n), n - 1);
      return { ...state, t, playing: t < n - 1 };
    }
    case "PAUSE":
      return { ...state, playing: false };
    case "GUESS":
      return { ...state, guess: event.text, verdict: null };
    case "CHECK":
      return { ...state, verdict: judged(demo, state) };
    default:
      throw new Error(`unknown event ${event.type}`);
  }
}

/** New texts of some fields: valid ones count at once; of a faulty one the last valid value stays. */
function set(demo, state, texts) {
  const drafts = { ...state.drafts, ...texts };
  const [values, errors] = [{ ...state.inputs }, {}];
  for (const [name, field] of Object.entries(demo.fields)) {
    try {
      values[name] = field.parse(drafts[name]);
    } catch (fault) {
      if (!fault.message) throw fault;
      errors[name] = fault;
    }
  }
  const clashes = demo.check?.(values) ?? {};
  const inputs = Object.keys(clashes).length ? state.inputs : values;
  const t = demo.place?.(inputs, state.inputs, state.t) ?? state.t;
  return { ...state, inputs, drafts, errors: { ...clashes, ...errors }, t: Math.min(t, demo.steps(inputs) - 1), playing: false, verdict: null };
}

function judged(demo, state) {
  if (!state.guess.trim()) return { text: "先选或先填一个答案，再核对。" };
  try {
    return demo.challenge(state.inputs, state.guess);
  } catch (fault) {
    if (!fault.message || fault instanceof Error) throw fault;
    return { text: fault.message };
  }
}

// --- fields ---

/** A Fault to throw. */
export function fault(message, fixes = []) {
  return { message, fixes };
}

export const KEPT = "图仍是上一次的输入";

/** The number that a text stands for: full-width digits, groups and powers of ten are understood; else NaN. */
export function number(text) {
  const plain = text.normalize("NFKC").replace(/[\s,_]/g, "").replace("−", "-");
  return /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

/** An integer from min to max. `also(value)` may throw a Fault of its own. */
export function integer(label, min, max, also = () => {}) {
  const range = `${comma(min)} 到 ${comma(max)} 的整数`;
  return {
    parse(text) {
      const value = number(text);
      if (!text.trim()) throw fault(`${label} 是空的；填一个 ${range}。${KEPT}`);
      if (Number.isNaN(value)) throw fault(`${label} 收到“${cut(text)}”，不是数；填一个 ${range}。${KEPT}`);
      const near = Math.min(Math.max(Math.round(value), min), max);
      if (near !== value) throw fault(`${label}＝${cut(text)} 不行；填一个 ${range}。${KEPT}`, [String(near)]);
      also(value);
      return value;
    },
    show: String,
  };
}

/** What `integer` also asks for, where only powers of two will do. */
export function powerOfTwo(label, why) {
  return (value) => {
    const below = 2 ** Math.floor(Math.log2(value));
    if (below !== value) throw fault(`${label}＝${comma(value)} 不行：${why}。${KEPT}`, [String(below), String(2 * below)]);
  };
}

/** One of the given values, a select or radio buttons. */
export function choice(label, values) {
  const texts = values.map(String);
  return {
    parse(text) {
      if (!texts.includes(text)) throw fault(`${label} 没有“${cut(text)}”这一项；可选 ${texts.join("、")}`);
      return values[texts.indexOf(text)];
    },
    show: String,
  };
}

/** A check box: "true" or "". */
export const flag = { parse: (text) => text === "true", show: (value) => (value ? "true" : "") };

function cut(text) {
  const bare = text.trim();
  return bare.length > 24 ? `${bare.slice(0, 24)}…` : bare;
}

// --- numbers as the static figures print them (courseware/dialect/demo.py) ---

/** An integer with groups of three. */
export function comma(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 }).replace("-", "−");
}

/** Data as JSON has it: NaN and the infinities in it are strings, as snippets.checks.plain writes them. */
export function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  return Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
}

/** Four significant digits, no exponent; NaN and infinities as symbols. */
export function sig(value, digits = 4) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  const places = Math.min(Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded)) + 1e-12)), 100);
  const options = { minimumFractionDigits: places, maximumFractionDigits: places };
  return rounded.toLocaleString("en-US", options).replace("-", "−");
}

/** Bytes with a decimal prefix: 16777216 -> 16.78 MB. */
export function si(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; at < 4 && Math.abs(count) >= 999.95; at++) count /= 1000;
  return at ? `${sig(count)} ${units[at]}` : `${comma(count)} B`;
}

/** Bytes in KiB of 1024, no trailing zeros. */
export function kib(count) {
  const text = sig(count / 1024);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} KiB`;
}
