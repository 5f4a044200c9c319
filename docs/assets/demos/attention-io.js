// HBM traffic and memory of attention, naive against fused: memory's ratio grows with S, traffic's does not.
// compute = snippets.io_model_frame.frame

import { choice, comma, integer, kib, LENGTHS, powerOfTwo, si, sig } from "./lib/model.js";
import { fill, logScale, mark, paint, unit } from "./lib/element.js";

const SINGLE = 3; // turns of the fused kernel that are told one by one
const MEMORY = { "A100 40 GB": 40e9, "A100 80 GB": 80e9, "H100 80 GB": 80e9, "H200 141 GB": 141e9 }; // bytes

// --- the model: elements of one head, as snippets.io_model counts them ---

const naivePasses = (S, d) => [
  ["S = QKᵀ", { Q: S * d, K: S * d }, { S: S * S }],
  ["P = softmax(S)", { S: S * S }, { P: S * S }],
  ["O = PV", { P: S * S, V: S * d }, { O: S * d }],
];
const fusedPass = (S, d, B_c) => {
  const [x, turns] = [S * d, Math.ceil(S / B_c)];
  return [["fused", { K: x, V: x, Q: turns * x, O: turns * x }, { O: turns * x }]];
};
const sum = (side) => Object.values(side).reduce((a, b) => a + b, 0);
const elements = (passes) => passes.reduce((all, [, reads, writes]) => all + sum(reads) + sum(writes), 0);
const extra = (S, form, bytes) => (form === "naive" ? 2 * S * S * bytes : 8 * S);
const memory = (S, d, form, bytes, heads) => heads * (extra(S, form, bytes) + 4 * S * d * bytes);
const ratio = (S, d, B_c) => elements(naivePasses(S, d)) / elements(fusedPass(S, d, B_c));

/** Largest S that fits: by halving, since memory grows with S. */
function largest(limit, d, form, bytes, heads) {
  let [low, high] = [0, limit]; // fits; does not
  if (memory(high, d, form, bytes, heads) <= limit) return high;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (memory(middle, d, form, bytes, heads) <= limit) low = middle;
    else high = middle;
  }
  return low;
}

function pipeline(form, passes, limit, S, d, bytes, heads) {
  const scaled = (side) => Object.fromEntries(Object.entries(side).map(([name, n]) => [name, n * bytes * heads]));
  const steps = passes.map(([name, r, w]) => {
    const [reads, writes] = [scaled(r), scaled(w)];
    const [read_bytes, write_bytes] = [sum(reads), sum(writes)];
    return { name, reads, writes, read_bytes, write_bytes, total_bytes: read_bytes + write_bytes };
  });
  const memory_bytes = memory(S, d, form, bytes, heads);
  return {
    steps, total_bytes: steps.reduce((all, step) => all + step.total_bytes, 0), memory_bytes,
    extra_bytes: heads * extra(S, form, bytes), fits: memory_bytes <= limit, largest_S: largest(limit, d, form, bytes, heads),
  };
}

function turnsOf(S, d, B_c, unitBytes) {
  const T_c = Math.ceil(S / B_c);
  const groups = Array.from({ length: Math.min(SINGLE, T_c) }, (_, j) => [j, 1]);
  if (T_c > SINGLE) groups.push([SINGLE, T_c - SINGLE]);
  return groups.map(([first, count]) => {
    const keys = Math.min((first + count) * B_c, S) - first * B_c;
    return { first, count, read_bytes: (2 * keys + 2 * count * S) * d * unitBytes, write_bytes: count * S * d * unitBytes };
  });
}

/** Same as snippets.io_model_frame.frame. */
export function compute({ S, d, dtype_bytes, heads, sram_bytes, limit_bytes }) {
  const M = Math.floor(sram_bytes / dtype_bytes);
  const B_c = Math.ceil(M / (4 * d));
  const whole = [limit_bytes, S, d, dtype_bytes, heads];
  const at = (n) => {
    const held = ["naive", "fused"].map((form) => memory(n, d, form, dtype_bytes, heads));
    return {
      S: n, ratio: ratio(n, d, B_c), memory_ratio: held[0] / held[1],
      naive_bytes: elements(naivePasses(n, d)) * dtype_bytes * heads, naive_memory_bytes: held[0],
      fused_bytes: elements(fusedPass(n, d, B_c)) * dtype_bytes * heads, fused_memory_bytes: held[1],
    };
  };
  return {
    S, d, dtype_bytes, heads, sram_bytes, limit_bytes, M, B_c, T_c: Math.ceil(S / B_c),
    naive: pipeline("naive", naivePasses(S, d), ...whole), fused: pipeline("fused", fusedPass(S, d, B_c), ...whole),
    turns: turnsOf(S, d, B_c, dtype_bytes * heads), compulsory_bytes: 4 * S * d * dtype_bytes * heads,
    ratio: ratio(S, d, B_c), ratio_limit: (4 * B_c) / (3 * d), flops_per_head: 4 * S * S * d, curve: LENGTHS.map(at),
  };
}

export const fields = {
  S: integer("S", 128, 131072, powerOfTwo("S", "这里只走 2 的幂")),
  d: choice("d", [32, 64, 128, 256]),
  dtype_bytes: choice("每个元素", [1, 2, 4]),
  heads: integer("B·H", 1, 1024),
  sram_kib: integer("SRAM", 16, 512),
  gpu: choice("GPU", [...Object.keys(MEMORY), "自己填"]),
  own_gb: integer("显存", 1, 1000),
};

export const presets = [
  { inputs: { S: 1024, d: 64, dtype_bytes: 2, heads: 16, sram_kib: 192, gpu: "A100 80 GB", own_gb: 24 }, t: 5 },
  { inputs: { heads: 1024 }, t: 5 },
  { inputs: { S: 131072 }, t: 6 },
  { inputs: { d: 256 }, t: 6 },
];

function frameInputs({ sram_kib, gpu, own_gb, ...rest }) {
  return { ...rest, sram_bytes: sram_kib * 1024, limit_bytes: MEMORY[gpu] ?? own_gb * 1e9 };
}

export const steps = (inputs) => 3 + compute(frameInputs(inputs)).turns.length;

/** The end stays the end when an input changes how many turns there are. */
export const place = (inputs, before, t) => (t === steps(before) - 1 ? steps(inputs) - 1 : t);

export const view = (inputs, t) => ({ ...compute(frameInputs(inputs)), t });

/** Bytes read and written by the fused turns up to step t. */
function fusedSoFar({ turns, t }) {
  const done = turns.slice(0, Math.max(t - 2, 0));
  const add = (key) => done.reduce((all, turn) => all + turn[key], 0);
  return { read: add("read_bytes"), written: add("write_bytes"), count: done.reduce((all, turn) => all + turn.count, 0) };
}

export function say(view) {
  const { naive, fused, turns, t, T_c } = view;
  if (t < 3) {
    const step = naive.steps[t];
    const told = (side) => Object.entries(side).map(([name, bytes]) => `${name} ${si(bytes)}`).join("、");
    const all = naive.steps.slice(0, t + 1).reduce((bytes, one) => bytes + one.total_bytes, 0);
    return `${"①②③"[t]}${step.name}：读 ${told(step.reads)}，写 ${told(step.writes)}；累计 ${si(all)}。`;
  }
  const { read, written, count } = fusedSoFar(view);
  if (count < T_c) {
    const turn = turns[t - 3];
    return `融合第 ${turn.first + 1}/${comma(T_c)} 趟：读一块 K、V 和全部 Q、O，共 ${si(turn.read_bytes)}，写 O ${si(turn.write_bytes)}；累计 ${si(read + written)}。`;
  }
  const end = `融合走完 ${comma(T_c)} 趟：累计 ${si(fused.total_bytes)}；朴素 ${si(naive.total_bytes)}，是它的 ${sig(view.ratio)} 倍。`;
  return view.ratio < 1 ? `${end}SRAM 太小或 d 太大：本模型下融合反而多搬。` : end;
}

// --- the challenge: how many times the ratio grows from one length to the longest ---

const START = LENGTHS.indexOf(4096);
const TOLERANCE = 0.1; // of the truth, either way
const growth = (curve) => curve.at(-1).ratio / curve[START].ratio;
const trim = (value) => sig(value).replace(".000", "");

/** Times that a place of the slider, a power of two, stands for: the two digits that are shown. */
const factor = (place) => Number((2 ** place).toPrecision(2));

/** `guess`: the slider's place. */
export function challenge(inputs, guess) {
  const { curve, ratio_limit } = compute(frameInputs(inputs));
  const [from, to, truth, guessed] = [curve[START], curve.at(-1), growth(curve), factor(guess)];
  return {
    right: Math.abs(guessed - truth) <= TOLERANCE * truth, truth,
    text: `你猜 ×${sig(guessed, 2)}，实际 ×${sig(truth)}：由 ${sig(from.ratio)} 到 ${sig(to.ratio)}，再长也趋于 ${trim(ratio_limit)}。同一段里显存之比由 ${sig(from.memory_ratio)} 涨到 ${sig(to.memory_ratio)}：省显存和省流量是两件事。`,
  };
}

// --- the picture ---

const [LEFT, RIGHT, UP, DOWN] = [46, 296, 14, 176];
const px = logScale(LENGTHS[0], LENGTHS.at(-1), LEFT, RIGHT);
const DIAMOND = "m0 -6l6 6l-6 6l-6 -6z";
const RING = "m-7.5 0a7.5 7.5 0 1 0 15 0a7.5 7.5 0 1 0 -15 0";
const KEY = [224, 150, 167]; // left, and the two lines, where no curve comes
const percent = (value) => `${Math.round(value * 1e3) / 1e3}%`;

export function draw(root, view, { verdict }) {
  const { S, d, dtype_bytes, heads, naive, fused, ratio: times, ratio_limit, curve, limit_bytes, t, T_c } = view;
  const slider = root.querySelector(".io-axis");
  slider.value = Math.log2(S);
  slider.setAttribute("aria-valuetext", `S = ${comma(S)}`);

  // passes: three naive ones, one after the other, then the fused one
  const scale = Math.max(naive.total_bytes, fused.total_bytes) / 100;
  const { read, written } = fusedSoFar(view);
  const steps = [...naive.steps, ...fused.steps];
  let from = 0;
  const bars = steps.flatMap(({ read_bytes, write_bytes, total_bytes }, k) => {
    const [r, w] = k === 3 ? [read, written] : k <= t ? [read_bytes, write_bytes] : [0, 0];
    const x = k === 3 ? 0 : from / scale;
    from += total_bytes;
    return [{ x: percent(x), width: percent(r / scale) }, { x: percent(x + r / scale), width: percent(w / scale) }];
  });

  const both = ({ naive_bytes, fused_bytes }) => [naive_bytes, fused_bytes].map(Math.log10);
  const floor = Math.floor(Math.min(...both(curve[0])));
  const ceil = Math.ceil(Math.max(...both(curve.at(-1))));
  const py = logScale(10 ** floor, 10 ** ceil, DOWN, UP);
  const at = (one, form) => `M${px(one.S)} ${py(one[`${form}_bytes`])}`;
  const line = (form) => curve.map((one) => at(one, form)).join("").replaceAll("M", "L").replace("L", "M");
  const dots = (form, list, shape = "h0") => list.map((one) => at(one, form) + shape).join("");
  const fits = (bytes) => bytes <= limit_bytes;
  const held = (one) => fits(one.naive_memory_bytes);
  const decades = Array.from({ length: ceil - floor + 1 }, (_, k) => 10 ** (floor + k));
  const rules = (list) => list.map((one) => `M${LEFT} ${py(one)}H${RIGHT}`).join("");
  const named = decades.filter((one) => Math.log10(one) % 3 === 0);
  const [x, early, fewer] = [px(S), px(S) < 120, ratio_limit >= 1];
  const above = curve.at(S === 8192 || S === 16384 ? -6 : -4); // clear of the words at S
  const label = (form, up) => {
    const [one, by, down, end] = up ? [above, -8, -6, "end"] : [curve.at(-6), 8, 14, "start"];
    return { x: unit(px(one.S) + by), y: unit(py(one[`${form}_bytes`]) + down), "text-anchor": end };
  };
  const limit = si(limit_bytes).replace(/\.0+ /, " ");
  fill(root, "scale", named.map((one) => `<text x="${LEFT - 5}" y="${unit(py(one) + 4)}" text-anchor="end">${si(one).replace(".000", "")}</text>`).join(""));
  paint(root, {
    fact: [sig(times), sig(naive.memory_bytes / fused.memory_bytes), sig(view.flops_per_head / 1e6)], most: trim(ratio_limit),
    total: [naive.total_bytes, fused.total_bytes], bar: bars, turns: T_c,
    bytes: steps.flatMap(({ read_bytes, write_bytes }) => [read_bytes, write_bytes]),
    grid: [rules(decades), rules(named)], line: [line("naive"), line("fused")],
    dots: [dots("fused", curve), dots("naive", curve.filter(held)), dots("naive", curve.filter((one) => !held(one)), "m-4 -4l8 8m0 -8l-8 8")],
    gap: `M${x} ${py(naive.total_bytes)}V${py(fused.total_bytes)}`,
    label: [label("naive", fewer), label("fused", !fewer)],
    times: {
      x: early ? Math.max(unit(x - 2), LEFT + 4) : unit(x + 2), "text-anchor": early ? "start" : "end", text: `${sig(times)} 倍`,
      y: unit(Math.min(py(naive.total_bytes), py(fused.total_bytes)) - 10),
    },
    limit, cap: limit, note: [heads, d, dtype_bytes, kib(view.sram_bytes), view.B_c, comma(naive.largest_S)],
    curve: curve.flatMap((one) => [
      one.naive_bytes, one.fused_bytes, sig(one.ratio), one.naive_memory_bytes, one.fused_memory_bytes, sig(one.memory_ratio),
      ...[held(one), fits(one.fused_memory_bytes)].map((yes) => ({ class: yes ? "" : "text-error", text: yes ? "✓ 能" : "✗ 不能" })),
    ]),
  });
  mark(root, ".io-pass__name", "io-pass__name--now", (k) => k === Math.min(t, 3));
  mark(root, "[data-part=curve] tr", "demo-table__now", (k) => curve[k].S === S);
  challenged(root, curve, py, verdict);
}

/** The slider of the guess tells its value. Checked, the guess is drawn as the fused line that it would need, beside the
 * true one, until the guess or the truth changes. */
function challenged(root, curve, py, verdict) {
  const form = root.querySelector("[data-challenge]");
  const [{ guess }, from, to] = [form.elements, curve[START], curve.at(-1)];
  const show = (checked) => {
    const guessed = factor(guess.value);
    const words = `×${sig(guessed, 2)}`;
    guess.setAttribute("aria-valuetext", words);
    const [start, y, naive] = [`M${px(from.S)} ${py(from.fused_bytes)}`, py(to.naive_bytes / (from.ratio * guessed)), py(to.naive_bytes)];
    const marks = (shape, at, line) => `M${RIGHT} ${at}${shape}M${KEY[0]} ${line - 3.6}${shape}`;
    paint(root, {
      guessed: words, guess: checked && [`${start}L${RIGHT} ${y}M${RIGHT} ${naive}V${y}`, marks(DIAMOND, y, KEY[1])],
      truth: checked && marks(RING, py(to.fused_bytes), KEY[2]),
      answer: checked ? [`你猜 ${words}`, `实际 ×${sig(growth(curve))}`] : "",
    });
  };
  const changed = () => guess.dispatchEvent(new Event("input", { bubbles: true }));
  guess.oninput = () => show();
  form.querySelector("button").onclick = changed; // an untouched slider is a guess, too
  form.onsubmit = () => show(true);
  show(verdict);
  if (verdict && verdict.truth !== growth(curve)) changed(); // an example with another truth: asked anew
}
