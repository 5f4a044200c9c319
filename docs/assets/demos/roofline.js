// The roofline: fusion moves the point to the right, up to where bandwidth no longer binds; decode stays where it is.
// compute = snippets.roofline.frame

import { choice, comma, integer, LENGTHS, sig } from "./lib/model.js";
import { logScale, mark, paint, reveal, unit } from "./lib/element.js";

const GPUS = { // data sheets: dense fp16 FLOP/s, HBM bytes/s
  "A100 40 GB SXM": [312e12, 1.555e12],
  "A100 80 GB SXM": [312e12, 2.039e12],
  "H100 SXM": [989e12, 3.35e12],
  "H200 SXM": [989e12, 4.8e12],
};

// --- the model ---

/** FLOP/byte of prefill (naive; fused without cache; every operand once) and of decode at one length. */
function point(S, d, dtype_bytes, B_r) {
  const flops = 4 * S * S * d;
  const turns = Math.ceil(S / B_r);
  const row = (extra) => (4 * S * d) / (((2 * S + 2) * d + extra) * dtype_bytes);
  return {
    S, naive: flops / ((4 * S * S + 4 * S * d) * dtype_bytes), fused: flops / ((2 + 2 * turns) * S * d * dtype_bytes),
    least: flops / (4 * S * d * dtype_bytes), decode_naive: row(4 * S), decode_fused: row(0),
  };
}

/** Same as snippets.roofline.frame. */
export function compute({ S, d, dtype_bytes, B_r, gpu }) {
  const here = point(S, d, dtype_bytes, B_r);
  const names = Object.keys(here).filter((name) => name !== "S");
  return {
    ...here, d, dtype_bytes, B_r, gpu,
    gpus: Object.entries(GPUS).map(([name, [peak, bandwidth]]) => ({
      name, peak, bandwidth, ridge: peak / bandwidth,
      attainable: Object.fromEntries(names.map((at) => [at, Math.min(peak, bandwidth * here[at])])),
    })),
    curve: LENGTHS.map((n) => point(n, d, dtype_bytes, B_r)),
  };
}

export const fields = {
  S: integer("S", 128, 131072),
  d: integer("d", 8, 256),
  B_r: integer("B_r", 1, 1024),
  dtype_bytes: choice("每个元素", [2, 4, 1]),
  gpu: choice("GPU", Object.keys(GPUS)),
};

export const presets = [
  { inputs: { S: 4096, d: 128, B_r: 128, dtype_bytes: 2, gpu: "H200 SXM" }, t: 5 },
  { inputs: { d: 64, gpu: "A100 80 GB SXM" }, t: 5 },
  { inputs: { dtype_bytes: 4 }, t: 5 },
  { inputs: { B_r: 16 }, t: 5 },
];

/** The lengths that are stepped through: the powers of two, and the reader's own. */
function lengths({ S }) {
  return [...new Set([...LENGTHS, S])].sort((a, b) => a - b);
}

export const steps = (inputs) => lengths(inputs).length;

/** A new length is looked at at once; other inputs leave the step alone. */
export const place = (inputs, before, t) => (inputs.S === before.S ? t : lengths(inputs).indexOf(inputs.S));

export function view(inputs, t) {
  return compute({ ...inputs, S: lengths(inputs)[t] });
}

export function say({ S, d, naive, fused, least, decode_fused }) {
  return `S=${comma(S)}，d=${d}：预填充时朴素 ${sig(naive)}，融合 ${sig(fused)} 到 ${sig(least)} FLOP/字节；`
    + `解码时两种写法都不到 ${Math.ceil(decode_fused)}。`;
}

/** Always of the first example: the question on the page names its d and GPU. */
export function challenge(_, guess) {
  const { inputs } = presets[0];
  const long = compute({ ...inputs, S: LENGTHS.at(-1) });
  const { ridge } = long.gpus.find(({ name }) => name === inputs.gpu);
  const past = long.naive >= ridge;
  return {
    right: (guess === "yes") === past,
    text: `S=${comma(long.S)} 时朴素的强度是 ${sig(long.naive)}，${inputs.gpu} 的拐点在 ${sig(ridge)}：${past ? "过了" : "过不了"}。`
      + `S 加倍，FLOPs 和 S×S 的字节都变成四倍，比值只趋于 d/${inputs.dtype_bytes}＝${sig(inputs.d / inputs.dtype_bytes).replace(/\.0+$/, "")}。`,
  };
}

// --- the picture: both axes logarithmic, what lies outside is clamped ---

const [LEFT, RIGHT, UP, DOWN] = [44, 306, 16, 196];
const px = logScale(0.5, 8192, LEFT, RIGHT);
const py = logScale(5e11, 2e15, DOWN, UP);
const RING = "m0 -4l4 4l-4 4l-4 -4z";

export function draw(root, view) {
  const { S, d, B_r, dtype_bytes, naive, fused, least, decode_fused, gpu, gpus, curve } = view;
  const { ridge, peak, bandwidth, attainable: at } = gpus.find(({ name }) => name === gpu);
  const [x, y] = [(name) => px(view[name]), (name) => py(at[name])];
  const spot = (name) => `M${x(name)} ${y(name)}`;
  const bend = fused < ridge && ridge < least ? `L${px(ridge)} ${py(peak)}` : "";
  const sums = ["naive", "fused", "decode_fused"].flatMap((name) => {
    const flat = bandwidth * view[name] >= peak;
    const term = (text, binds) => ({ class: binds ? "demo-strong" : "", text: binds ? `▶ ${text}` : text });
    return [
      term(`${Math.round(peak / 1e12)}`, flat), term(`${sig(bandwidth / 1e12)} × ${sig(view[name])}`, !flat),
      `= ${sig(at[name] / 1e12)}`,
    ];
  });
  paint(root, {
    drop: [`M${px(ridge)} ${py(peak)}V${DOWN}`, `${spot("naive")}V${DOWN}`],
    spot: [
      spot("fused") + bend + spot("least").replace("M", "L"), `${spot("fused")}h0`, `${spot("least")}m0 -7v14`,
      `${spot("decode_fused")}h0`, spot("decode_naive") + RING, spot("naive") + RING,
    ],
    label: [
      { x: unit(px(ridge) + 5) }, { x: unit(x("naive") - 10), y: y("naive") }, { x: x("least"), y: unit(y("least") + 20) },
      { x: unit(x("decode_fused") + 12), y: unit(y("decode_fused") + 10) },
    ],
    ridge: Math.round(ridge), beyond: least > 8192 ? " →" : "", sums, at: comma(S), note: [d, dtype_bytes, B_r],
    gpus: gpus.flatMap((one) => {
      const share = (name, digits = 3) => `${sig((100 * one.attainable[name]) / one.peak, digits)}%`;
      return [
        Math.round(one.peak / 1e12), sig(one.bandwidth / 1e12), sig(one.ridge), share("naive"), `${share("fused")} 到 ${share("least")}`,
        share("decode_naive", 2), share("decode_fused", 2),
      ];
    }),
    curve: curve.flatMap((one) => [
      sig(one.naive), sig(one.fused), Number.isInteger(one.least) ? comma(one.least) : sig(one.least), sig(one.decode_naive, 5),
      sig(one.decode_fused, 5),
    ]),
  });
  reveal(root, { forty: gpu === gpus[0].name });
  mark(root, "[data-part=gpus] tr", "demo-table__now", (k) => gpus[k].name === gpu);
  mark(root, "[data-part=curve] tr", "demo-table__now", (k) => curve[k].S === S);
}
