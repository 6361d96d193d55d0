// Recompute one payment: from the public release and one's own record, in one's own browser.
//
// This is a second implementation, written apart from the service's. It follows the same steps, which are public:
//   1. her record becomes a vector x of length at most 1 and a number y, both cut to multiples of 2^-20;
//   2. p, what everybody else's answers predict of her: x times the estimate, her own answer taken out of it;
//   3. q, what her own answer says that p will be: an average over all coefficients she may believe in;
//   4. the payment base + b (2pq - q^2), rounded down to a millionth.
// Where people answer yes or no, or with a rating, the payment is flat + bonus/2 (1 + phi y + ...) instead of 3 and 4: see
// `checkOfShares`. Where they are also asked what the others will say, see `checkOfPredictions`.
// Names are those of https://arxiv.org/abs/1506.03489 as used in the documentation.

const GRID = 2 ** 20;
const STEPS = 1e6;
const SHARES = "switch";
const SERUM = "serum";
const PREDICTIONS = ["own-centre", SERUM];

/**
 * All steps of one payment. `taken` says that numbers were taken over instead of being computed: from the receipt, where
 * the sums that they follow from are not published. `sound` says whether the release's own numbers fit together.
 */
export function check(release, receipt) {
  if (release.payment.rule === SHARES) return checkOfShares(release, receipt);
  if (PREDICTIONS.includes(release.payment.rule)) return checkOfPredictions(release, receipt);
  const study = declared(release);
  const { x, y } = record(study, receipt);
  const r = norm(x);
  const clipped = release.payment.payments === "never-negative";
  const reach = release.payment.clip * r;

  const { leverage, kept, noise, taken } = without(release, receipt, x, r);
  let p = (dot(x, release.theta) - leverage * y) / kept;
  if (clipped) p = clip(p, reach);

  const curve = clipped ? clippedCurve(release.payment.clip, study.d, noise) : (u) => u;
  const own = ownPrediction(study, r, y, curve, clipped ? release.payment.clip : study.R);

  const base = clipped ? baseOf(release.payment, reach) : release.payment.a;
  const payment = pay(release.payment, base, clipped ? reach : null, p, own.q);
  const found = sound(study);
  return {
    ...{ x, y, r, leverage, noise, taken, p, q: own.q, error: own.error, base, payment, paid: receipt.payment },
    ...{ sound: found, verified: found && agrees(payment, receipt) },
  };
}

/** The service may read q from a table that is good to 1e-9, so the last rounding may differ by one step. */
function agrees(payment, receipt) {
  return Math.abs(payment - receipt.payment) < 1.5 / STEPS;
}

// Yes or no, and ratings --------------------------------------------------------------------------------------------

/**
 * p is the share of yes among everybody else who is like her (of a rating: how far their mean is from the lowest to the
 * highest), t the share at which the lowest and the highest answer pay the same, and y her answer from -1 to 1. With
 * phi = (p - t)/w, within -1 and 1, she is paid flat + bonus/2 (1 + phi y + (delta/2w)(1 - y^2)); if p is further than a
 * tolerance beyond every share that was thought possible, flat + bonus/2.
 */
function checkOfShares(release, receipt) {
  const study = declared(release);
  const { x, y } = record(study, receipt);
  const { leverage, kept, noise, taken } = without(release, receipt, x, 1);
  const p = (1 + (dot(x, release.theta) - leverage * y) / kept) / 2;

  const { a: flat, b: bonus } = release.payment;
  const { mean, credibility, low, high } = believed(study, x);
  const t = mean + credibility * (0.5 - mean);
  const delta = credibility / 2;
  const width = Math.max(high - t, t - low) + (release.payment.margin ?? 0);
  const tolerance = release.payment.tolerance ?? Infinity;
  const plausible = low - tolerance <= p && p <= high + tolerance;
  const phi = plausible ? clip((p - t) / width, 1) : 0;
  const times = plausible ? 1 + phi * y + (delta / (2 * width)) * (1 - y * y) : 1;
  const payment = Math.floor(Math.min(Math.max(flat + (bonus / 2) * times, flat), flat + bonus) * STEPS) / STEPS;

  const found = sound(study);
  return {
    ...{ x, y, r: norm(x), leverage, noise: taken ? noise : noise / 2, taken, p, q: t + delta * y, error: 0 },
    ...{ switch: t, width, phi, plausible, base: flat, payment, paid: receipt.payment },
    ...{ sound: found, verified: found && agrees(payment, receipt) },
  };
}

/**
 * What is believed of the share of people with features x: its mean, how far her own answer moves it (Z), and between what
 * it lies. The declared share is uniform between its ends, and each effect, of variance e^2/12, independent of it; a
 * number's counts by its code, from -1 to 1. Of K answers Z = K'/(K' + nu), nu = mean (1 - mean)/variance - 1.
 */
function believed({ release, beliefs, scale }, x) {
  const [least, most] = beliefs.share;
  const expected = (name) => beliefs.expected?.[name] ?? 0;
  let mean = (least + most) / 2;
  let variance = (most - least) ** 2 / 12;
  let reach = (most - least) / 2;
  let place = 1;
  for (const { name, levels } of release.features) {
    const effect = typeof beliefs.effect === "number" ? beliefs.effect : beliefs.effect[name];
    const codes = x.slice(place, (place += levels ? levels.length - 1 : 1)).map((v) => v * scale);
    const share = levels ? 1 : Math.abs(codes[0]);
    variance += (share * effect) ** 2 / 12;
    reach += (share * effect) / 2;
    if (levels) {
      const effects = levels.map((level) => expected(`${name}=${level}`));
      const middle = effects.reduce((sum, e) => sum + e, 0) / effects.length;
      mean += dot(codes, effects.slice(0, -1).map((e) => e - middle));
    } else {
      mean += (codes[0] * expected(name)) / 2;
    }
  }
  for (const { name, size } of interactions(release)) {
    const effect = typeof beliefs.effect === "number" ? beliefs.effect : beliefs.effect[name];
    for (const code of x.slice(place, (place += size)).map((v) => v * scale)) {
      variance += (code * effect) ** 2 / 12;
      reach += (Math.abs(code) * effect) / 2;
    }
  }
  const K = release.response.kind === "rating" ? release.response.levels : 2;
  const Z = credibility(mean, variance, K, beliefs);
  return { mean, credibility: Z, low: Math.max(mean - reach, 0), high: Math.min(mean + reach, 1) };
}

/** Z of K answers, for a share of this mean and variance. */
function credibility(mean, variance, K, { agreement }) {
  const parts = (K - 1) / (1 + (K - 2) * (agreement ?? 0.3));
  return parts / (parts + (mean * (1 - mean)) / variance - 1);
}

// Asked what the others will say -----------------------------------------------------------------------------------

/**
 * y is her answer and m her prediction of the others' average, both from -1 to 1. Without hers, p is what the others'
 * answers predict of people like her, `average` of everybody, and `predictions` their mean prediction. The surprise, within
 * -C and C, is p less what was expected of people like her before anybody knew her own answer; for yes and no it is p less
 * the mean prediction, and what is declared of her features. She is paid a + b (2s(1-s)(y-p) surprise - s^2 (y-p)^2), for
 * yes and no a + b y surprise/C, and w (4 - (m - average)^2) for her prediction.
 */
function checkOfPredictions(release, receipt) {
  const study = declared(release);
  const { x, y } = record(study, receipt);
  const m = prediction(release, receipt);
  const { leverage, kept, noise, taken } = without(release, receipt, x, 1);
  const p = (dot(x, release.theta) - leverage * y) / kept;

  const { mean, total, weight, weighted, offset } = release.predictions;
  const { a, b, clip: C, prediction: w, ratio, rule, plausible: within } = release.payment;
  const others = release.players - 1;
  const zeta = instrument(release, x);
  const without_her = (row) => dot(row, release.theta) - dot(transposed(release.inverse, row), zeta) * (y - p);
  const average = without_her(mean);
  const predictions = (Number(BigInt(total)) / (Math.round(ratio * GRID) * GRID) - m) / others;
  const { slope, k, o } = differences(study, x, mean);

  let surprise = p - predictions - o / GRID;
  if (rule !== SERUM) {
    const answers = without_her(weighted.map((text) => Number(BigInt(text)) / GRID ** 2)) - (k / GRID) * p;
    const offsets = Number(BigInt(offset) - BigInt(k) * BigInt(o)) / GRID ** 2;
    const left = 1 - Number(BigInt(weight) - BigInt(k)) / GRID / others;
    surprise = p - (predictions - (answers - offsets) / others) / left - o / GRID;
  }
  const plausible = within === undefined || within === null || (within[0] <= average && average <= within[1]);
  surprise = plausible ? clip(surprise, C) : 0;

  const apart = slope * (y - clip(p, 1));
  const score = rule === SERUM ? (y * surprise) / C : 2 * (1 - slope) * apart * surprise - apart * apart;
  const forAnswer = Math.max(a + b * (plausible ? score : 0), 0);
  const forPrediction = w * (4 - (m - clip(average, 1)) ** 2);
  const payment = Math.floor((forAnswer + forPrediction) * STEPS) / STEPS;

  const found = sound(study) && soundPredictions(study);
  return {
    ...{ x, y, m, r: norm(x), leverage, noise, taken, p, q: slope * y, error: 0, average, predictions, surprise, slope },
    ...{ plausible, base: a, forAnswer, forPrediction, payment, paid: receipt.payment },
    ...{ sound: found, verified: found && agrees(payment, receipt) },
  };
}

/** What people predict goes from -1 to 1: of 100 others how many say yes, or the average answer. */
function ofPredictions({ response }) {
  return response.kind === "yes-no" ? { low: 0, high: 100 } : response;
}

/** Her prediction, cut to the grid toward zero. */
function prediction(release, receipt) {
  if (typeof receipt.prediction !== "number") throw new Error("The receipt has no prediction.");
  const { low, high } = ofPredictions(release);
  const m = (2.0 * receipt.prediction - low - high) * (1.0 / (high - low));
  return (Math.sign(m) * Math.min(Math.floor(Math.abs(m * GRID)), GRID)) / GRID;
}

/**
 * What is declared of people with features x beside those of the mean: s, how much an answer moves what is expected of
 * people like its giver, and in whole steps of the grid k, of everybody, and o, how much more is expected of them. Half the
 * scale of answers is the unit; the variance of an effect e is e^2/12. A number's counts by its code less the mean, u; those
 * of K levels sum to zero, so that they make e^2/12 (K sum u^2 - (sum u)^2)/(K - 1).
 */
function differences({ release, beliefs, scale }, x, mean) {
  const { low, high, kind, levels: K = 2 } = release.response;
  const unit = beliefs.share ? 2 : 2 / (high - low);
  const expected = (name) => unit * (beliefs.expected?.[name] ?? 0);
  const level = (unit * beliefs.sure) ** 2;
  let [variance, offset, place] = [level, 0, 1];
  for (const { name, levels } of release.features) {
    const effect = unit * (typeof beliefs.effect === "number" ? beliefs.effect : beliefs.effect[name]);
    const end = place + (levels ? levels.length - 1 : 1);
    const codes = x.slice(place, end).map((v, j) => (v - mean[place + j]) * scale);
    const squares = dot(codes, codes);
    const added = codes.reduce((sum, u) => sum + u, 0);
    const counts = levels ? (levels.length * squares - added * added) / (levels.length - 1) : squares;
    variance += (counts * effect ** 2) / 12;
    if (levels) {
      const effects = levels.map((one) => expected(`${name}=${one}`));
      const middle = effects.reduce((sum, e) => sum + e, 0) / effects.length;
      offset += dot(codes, effects.slice(0, -1).map((e) => e - middle));
    } else {
      offset += (codes[0] * expected(name)) / 2;
    }
    place = end;
  }
  for (const { name, size } of interactions(release)) {
    const effect = unit * (typeof beliefs.effect === "number" ? beliefs.effect : beliefs.effect[name]);
    for (let j = 0; j < size; j++, place++) variance += ((x[place] - mean[place]) * scale * effect) ** 2 / 12;
  }
  const slope = beliefs.share
    ? credibility((beliefs.share[0] + beliefs.share[1]) / 2 + offset / 2, variance / 4, kind === "rating" ? K : 2, beliefs)
    : variance / (variance + (unit * beliefs.spread) ** 2);
  return { slope, k: Math.trunc(((slope * level) / variance) * GRID), o: Math.trunc(offset * GRID) };
}

/** Whether what is published of predictions fits together, and, without features, what they say of the level. */
function soundPredictions({ release, beliefs, scale }) {
  const { total, mean, weight, weighted, offset, answer, prediction: predicted } = release.predictions;
  const { low, high } = ofPredictions(release);
  const raw = (value) => low + ((high - low) / 2) * (value + 1);
  const shown = Number(BigInt(total)) / (Math.round(release.payment.ratio * GRID) * GRID) / release.players;
  const told = near(predicted.value, raw(shown), 1e-9 * (high - low)) && near(answer.value, raw(dot(mean, release.theta)), 1e-9 * (high - low));
  if (!told || release.features.length) return told;
  const k = release.payment.rule === SERUM ? 0 : differences({ release, beliefs, scale }, [1], [1]).k;
  const sums = [BigInt(weight), BigInt(weighted[0]), BigInt(offset)];
  const count = BigInt(release.players) * BigInt(k);
  return mean[0] === 1 && [count, count * BigInt(GRID), 0n].every((value, at) => value === sums[at]);
}

/** M' row. */
function transposed(matrix, row) {
  return matrix[0].map((_, j) => dot(row, matrix.map((line) => line[j])));
}

// 1. The record ---------------------------------------------------------------------------------------------------

/** What the release declares, in the normalised problem y = theta.x + z, |theta| <= R, |z| <= M. */
function declared(release) {
  const beliefs = release.beliefs;
  // Answers from -1 to 1, and nothing is believed of theta.
  const shares = [SHARES, ...PREDICTIONS].includes(release.payment.rule);
  const R = shares ? 1.0 : (beliefs.signal ?? beliefs.radius);
  const M = shares ? 0.0 : beliefs.signal === undefined ? beliefs.noise_bound : 1.0 - beliefs.signal;
  const ball = release.design.kind === "unit-ball";
  const sizes = [...release.features.map(columns), ...interactions(release).map(({ size }) => size)];
  const d = sizes.reduce((sum, count) => sum + count, release.intercept ? 1 : 0);
  const study = { release, beliefs, R, M, ball, d, scale: ball ? 1.0 : Math.sqrt(d) };
  study.centre = centre(study);
  study.half = (R + M) / (1.0 - centreReach(study));
  return study;
}

/** How many codes a feature has. */
function columns(feature) {
  return feature.levels ? feature.levels.length - 1 : 1;
}

/** Pairs of features whose products count too, after all features; each product of their codes is a column of x. */
function interactions(release) {
  return (release.interactions ?? []).map((pair) => {
    const [first, second] = pair.map((name) => release.features.findIndex((feature) => feature.name === name));
    const size = columns(release.features[first]) * columns(release.features[second]);
    return { name: pair.join(":"), first, second, size };
  });
}

/** Every product of an entry of the one with an entry of the other, those of the other running fastest. */
function products(one, other) {
  return one.flatMap((a) => other.map((b) => a * b));
}

/** The furthest that the centre predicts from the middle of the range, which is 1 wide to either side. */
function centreReach({ release, centre, ball, scale }) {
  const length = norm(centre);
  if (length === 0 || ball) return length;
  let [low, high, place] = [0, 0, 0];
  const add = (values) => {
    low += Math.min(...values);
    high += Math.max(...values);
  };
  if (release.intercept) add([centre[place++]]);
  for (const { levels } of release.features) {
    const own = centre.slice(place, (place += levels ? levels.length - 1 : 1));
    add(levels ? [...own, -own.reduce((sum, c) => sum + c, 0)] : [-own[0], own[0]]);
  }
  for (const { first, second, size } of interactions(release)) {
    const own = centre.slice(place, (place += size));
    const [one, other] = [first, second].map((at) => corners(release.features[at]));
    add(one.flatMap((a) => other.map((b) => dot(products(a, b), own))));
  }
  return Math.min(length, Math.max(-low, high) / scale);
}

/** All codes of levels, and those of a number at its ends. */
function corners({ levels }) {
  if (!levels) return [[-1], [1]];
  const last = levels.length - 1;
  return levels.map((_, at) => levels.slice(0, -1).map((_, j) => (at === last ? -1 : at === j ? 1 : 0)));
}

/** The centre of the prior as coefficients of x, where half the answer's range is 1; all zeros if there is none. */
function centre({ release, beliefs, ball, scale }) {
  const given = typeof beliefs.centre === "object" ? (beliefs.centre ?? {}) : {};
  const value = (name) => given[name] ?? 0;
  const { low, high } = release.response;
  const effects = release.features.map((feature) => names(feature).map(value));
  const added = release.features.map((feature) => new Array(columns(feature)).fill(0));
  const together = [];
  for (const { first, second } of interactions(release)) {
    const [one, other] = [release.features[first], release.features[second]];
    const inner = names(one).map((a) => uncode(other, names(other).map((b) => value(`${a}:${b}`)), ball));
    const outer = added[second].map((_, j) => uncode(one, inner.map(([found]) => found[j]), ball));
    together.push(...added[first].flatMap((_, i) => outer.map(([found]) => found[i])));
    inner.forEach(([, mean], i) => (effects[first][i] += mean));
    outer.forEach(([, mean], j) => (added[second][j] += mean));
  }
  let constant = 0;
  const coefficients = release.features.flatMap((feature, at) => {
    const [found, moved] = uncode(feature, effects[at], ball);
    constant += moved;
    return found.map((coefficient, j) => added[at][j] + coefficient);
  });
  coefficients.push(...together);
  if (release.intercept) {
    coefficients.unshift("intercept" in given ? given.intercept - (low + high) / 2 + constant : 0);
  }
  return coefficients.map((c) => c * ((scale * 2) / (high - low)));
}

/** The names of a feature's coefficients. */
function names({ name, levels }) {
  return levels ? levels.map((level) => `${name}=${level}`) : [name];
}

/** Coefficients of a feature's codes from those of its values or levels, and the constant that goes with them. */
function uncode({ levels, low, high }, effects, ball) {
  if (levels) {
    const mean = effects.reduce((sum, effect) => sum + effect, 0) / effects.length;
    return [effects.slice(0, -1).map((effect) => effect - mean), mean];
  }
  if (ball) return [effects, 0];
  const coefficient = effects[0] / (2.0 / (high - low));
  return [[coefficient], (coefficient * (low + high)) / (high - low)];
}

/** Her features and answer as x and y, cut to the grid toward zero: just what the service computed with. */
function record(study, receipt) {
  const { release, R, M, scale } = study;
  const raw = release.intercept ? [1.0 / scale] : [];
  const own = release.features.map((feature) => codes(study, feature, receipt.features[feature.name]));
  raw.push(...own.flat());
  for (const { first, second } of interactions(release)) {
    raw.push(...products(own[first], own[second]).map((v) => v * scale));
  }

  const { low, high } = release.response;
  let y = (2.0 * receipt.report - low - high) * (study.half / (high - low));
  if (study.centre.some((c) => c !== 0)) y -= dot(raw, study.centre.map((c) => study.half * c));

  const most = Math.floor((R + M) * GRID);
  const ky = Math.sign(y) * Math.min(Math.floor(Math.abs(y * GRID)), most);
  return { x: inBall(raw), y: ky / GRID };
}

/** One feature: a number by its place in its range, a level by effect coding (the last is -1 throughout). */
function codes({ ball, scale }, feature, value) {
  if (value === undefined) throw new Error(`The receipt has no feature "${feature.name}".`);
  if (ball) return [value];
  if (!feature.levels) {
    const { low, high } = feature;
    return [(2.0 * value - low - high) * (1.0 / ((high - low) * scale))];
  }
  const place = feature.levels.indexOf(value);
  if (place < 0) throw new Error(`"${value}" is no level of "${feature.name}".`);
  const last = feature.levels.length - 1;
  return feature.levels.slice(0, -1).map((_, j) => (place === last ? -1 : j === place ? 1 : 0) / scale);
}

/** x on the grid. One that is longer than 1 is divided by its length first. */
function inBall(x) {
  const cut = x.map((v) => Math.trunc(v * GRID));
  if (dot(cut, cut) <= GRID ** 2) return cut.map((k) => k / GRID);
  const most = Math.max(...x.map(Math.abs));
  const scaled = x.map((v) => v / most);
  const length = Math.sqrt(dot(scaled, scaled));
  return scaled.map((v) => Math.trunc((v / length) * GRID) / GRID);
}

// 2. Everybody else's prediction ----------------------------------------------------------------------------------

/**
 * What taking her own answer out of the estimate needs: h, how much of the prediction for her is her own answer; what is
 * left of the whole without her; and the scale of the noise along x. With w = M^-T x and her weight zeta in the sums,
 * h = w.zeta and the noise in the prediction s |w|. Where M is not published, both are those of the receipt.
 */
function without(release, receipt, x, r) {
  const along = (noise) => (r > 0 ? noise / r : 0);
  if (release.inverse === null) {
    const { leverage, noise_scale: noise } = receipt;
    if (!(Number.isFinite(leverage) && Math.abs(leverage) < 1 && noise >= 0)) throw new Error("The receipt's leverage cannot be right.");
    return { leverage, kept: 1 - leverage, noise: along(noise), taken: true };
  }
  const w = transposed(release.inverse, x);
  const leverage = dot(w, instrument(release, x));
  const n = release.players;
  const kept = release.estimator === "known-design" ? (n - 1) / n : 1 - leverage;
  return { leverage, kept, noise: along((release.noise.scale * norm(w)) / kept), taken: false };
}

/** zeta: T x, no longer than 1, on the grid; by the sup norm no entry is beyond 1. T is in whole units of 2^-10, so that T x
 * is exact. */
function instrument({ instruments, noise }, x) {
  if (instruments === null) return x;
  const entries = instruments.transform.map((row) => dot(row, x) * instruments.unit);
  if (noise.norm === "sup") return entries.map((v) => clip(Math.trunc(v * GRID), GRID) / GRID);
  return inBall(entries);
}

/** Whether the release fits together: its noise is what epsilon says, and theta and the inverse follow from its sums. */
function sound(study) {
  const { release, R, M, d, scale } = study;
  if (!soundCoefficients(study)) return false;
  const { statistics, inverse, theta, epsilon, noise, players } = release;
  const both = Math.hypot(1, release.payment.ratio ?? 0); // one person moves her answer and her prediction
  const expected = (both * (2 * Math.floor((R + M) * GRID))) / GRID / epsilon.answers;
  if (!near(noise.scale, expected, 1e-9 * expected)) return false;
  if (inverse === null) return true;
  const vector = numbers(statistics.vector, statistics.unit);
  const follows = theta.every((t, k) => near(t, dot(inverse[k], vector), 1e-9 * norm(inverse[k]) * norm(vector)));
  const matrices = {
    instruments: () => statistics.matrix.map((row) => numbers(row, statistics.unit)),
    "known-design": () => moments(release, d, scale).map((row) => row.map((v) => players * v)),
    "noisy-statistics": () =>
      floored(statistics.matrix.map((row) => numbers(row, statistics.unit)), Math.max(noise.matrix_scale * d ** 1.5, 2)),
  };
  return follows && inverts(inverse, matrices[release.estimator]());
}

/** Whether the published coefficients, and the share of everybody, are those of theta, with intervals about them. */
function soundCoefficients(study) {
  const { release } = study;
  const { low, high } = release.response;
  const found = rawCoefficients(study);
  const mean = release.features.length ? release.statistics.mean : [1];
  const shares = (mean ? release.shares : null) ?? [];
  const everybody = mean ? (low + high) / 2 + ((high - low) / 2) * dot(mean, release.theta) : 0;
  const is = (one, value) => near(one.value, value, 1e-6 * Math.max(Math.abs(value), Math.abs(one.high - one.low)));
  return (
    release.coefficients.every((one) => is(one, found.get(one.name)) && one.low <= one.value && one.value <= one.high) &&
    shares.every((one) => is(one, everybody))
  );
}

/** Coefficients of features as people know them: of a number per unit, of a level beside the mean of all, of products. */
function rawCoefficients({ release, centre, half, ball, scale }) {
  const { low, high } = release.response;
  const unit = (high - low) / 2 / half;
  const theta = release.theta.map((t, k) => (unit * (t + half * centre[k])) / scale);
  const start = release.intercept ? 1 : 0;
  const found = new Map([["intercept", (low + high) / 2 + (release.intercept ? theta[0] : 0)]]);
  const add = (name, value) => found.set(name, (found.get(name) ?? 0) + value);
  const all = release.features.map((feature) => [["intercept", offsets(feature, ball)], ...raw(feature, ball)]);
  let place = start;
  for (const terms of all) {
    const own = theta.slice(place, (place += terms[0][1].length));
    for (const [name, codes] of terms) add(name, dot(codes, own));
  }
  for (const { first, second, size } of interactions(release)) {
    const own = theta.slice(place, (place += size));
    for (const [one, a] of all[first]) {
      for (const [other, b] of all[second]) {
        const named = [one, other].filter((name) => name !== "intercept");
        add(named.join(":") || "intercept", dot(products(a, b), own));
      }
    }
  }
  return found;
}

/** How a feature's codes change with what people know: per unit of a number, and with each level. */
function raw(feature, ball) {
  const { low, high, levels } = feature;
  if (levels) return corners(feature).map((codes, at) => [names(feature)[at], codes]);
  return [[feature.name, [ball ? 1 : 2 / (high - low)]]];
}

/** Its codes where the number is 0; of levels, none. */
function offsets({ low, high, levels }, ball) {
  if (levels) return levels.slice(1).map(() => 0);
  return [ball ? 0 : -(low + high) / (high - low)];
}

/** Sums are whole numbers of many digits, written as text; the nearest floats to them in their unit. */
function numbers(texts, unit) {
  return texts.map((text) => Number(BigInt(text)) * unit);
}

function inverts(inverse, matrix) {
  return inverse.every((row, i) =>
    matrix[0].every((_, j) => near(dot(row, matrix.map((other) => other[j])), i === j ? 1 : 0, 1e-6)),
  );
}

/**
 * The declared E[x x']: of a matrix, of the unit ball, or of features that are independent. There a column is a product of
 * codes, one of each feature in it (none: 1), and so is the product of two columns, at most two of each: their mean is the
 * product of what each feature has.
 */
function moments(release, d, scale) {
  const { design, features, intercept } = release;
  if (design.kind === "covariance") return design.matrix;
  const square = (value) => Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => value(i, j)));
  if (design.kind === "unit-ball") return square((i, j) => (i === j ? 1 / (d + 2) : 0));
  const codes = features.map((feature, at) => corners(feature)[0].map((_, j) => [[at, j]]));
  const pairs = interactions(release).flatMap(({ first, second }) =>
    codes[first].flatMap((a) => codes[second].map((b) => [...a, ...b])),
  );
  const all = [...(intercept ? [[]] : []), ...codes.flat(), ...pairs];
  const laws = features.map(law);
  return square((i, j) => {
    const factors = new Map();
    for (const [at, place] of [...all[i], ...all[j]]) factors.set(at, [...(factors.get(at) ?? []), place]);
    return [...factors].reduce((value, [at, places]) => value * mean(laws[at], places), 1) / scale ** 2;
  });
}

/** Codes that a feature has, each with its probability; of a number that is uniform on its range, +-1/sqrt 3 has as much. */
function law(feature) {
  const { levels, values, low, high, probabilities } = feature;
  const points = levels
    ? corners(feature)
    : (values?.map((value) => [(2 * value - low - high) / (high - low)]) ?? [[-1 / Math.sqrt(3)], [1 / Math.sqrt(3)]]);
  const weights = probabilities ?? points.map(() => 1);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return points.map((codes, at) => ({ codes, weight: weights[at] / total }));
}

/** The mean of a product of these codes of one feature. */
function mean(cases, places) {
  return cases.reduce((sum, { codes, weight }) => sum + places.reduce((all, place) => all * codes[place], weight), 0);
}

/** A symmetric matrix with its eigenvalues raised to at least `least`: Jacobi's rotations make it diagonal. */
function floored(matrix, least) {
  const d = matrix.length;
  const A = matrix.map((row) => [...row]);
  const U = A.map((row, i) => row.map((_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 60 && offDiagonal(A) > 1e-14 * norm(A.flat()); sweep++) {
    for (let i = 0; i < d; i++) for (let j = i + 1; j < d; j++) rotate(A, U, i, j);
  }
  const values = A.map((row, i) => Math.max(row[i], least));
  return U.map((u) => U.map((v) => sum([...values.keys()], (k) => u[k] * values[k] * v[k])));
}

function offDiagonal(A) {
  return norm(A.flatMap((row, i) => row.filter((_, j) => j !== i)));
}

/** One rotation, after which A[i][j] is 0. */
function rotate(A, U, i, j) {
  if (A[i][j] === 0) return;
  const angle = (A[j][j] - A[i][i]) / (2 * A[i][j]);
  const t = (angle < 0 ? -1 : 1) / (Math.abs(angle) + Math.hypot(angle, 1));
  const cos = 1 / Math.hypot(t, 1);
  const sin = t * cos;
  const turned = (one, other) => [cos * one - sin * other, sin * one + cos * other];
  for (const row of A) [row[i], row[j]] = turned(row[i], row[j]);
  for (let k = 0; k < A.length; k++) [A[i][k], A[j][k]] = turned(A[i][k], A[j][k]);
  for (const row of U) [row[i], row[j]] = turned(row[i], row[j]);
}

// 3. Her own prediction -------------------------------------------------------------------------------------------

/**
 * q = r E[psi(u) | x, y]: u = theta.x/r has the density f(u) g(y - ru), f from the prior, g from the noise. In the
 * angle t, u = R cos t, it has no corner; psi bends at u = -c and c. Everything is odd in y; an answer nobody could hold
 * moves to the edge.
 */
function ownPrediction({ beliefs, R, M, d }, r, y, curve, c) {
  if (r === 0) return { q: 0, error: 0 };
  const side = Math.sign(y);
  const size = Math.min(Math.abs(y), R * r + M);
  const angle = (gap) => 2 * Math.asin(Math.sqrt(gap / (2 * R)));
  const low = angle(Math.max((R * r - M - size) / r, 0));
  const high = Math.max(angle(Math.min((R * r + M - size) / r, 2 * R)), low * (1 + 1e-15), 1e-100);
  const prior = beliefs.prior === "normal" ? normalBall(R / beliefs.prior_sd, d) : (t) => d * Math.log(Math.sin(t));
  const sd = beliefs.noise_sd ?? M / 2;
  const noise = beliefs.noise === "uniform" ? () => 0 : (z) => -0.5 * (z / sd) ** 2;
  const logWeight = (t) => prior(t) + noise(clip(size - r * (R * Math.cos(t)), M));
  const bends = [Math.acos(c / R), Math.acos(-c / R)];
  const mean = expectation(low, high, bends, logWeight, (t) => curve(R * Math.cos(t)), R);
  return { q: r * side * mean.value, error: r * mean.error };
}

/** The density of t under a normal prior cut to the ball: sin t exp(-u^2/2s^2) P(chi^2_{d-1} <= (R^2 - u^2)/s^2). */
function normalBall(k, d) {
  const chi2 = logChi2(d - 1);
  return (t) => Math.log(Math.sin(t)) + chi2((k * Math.sin(t)) ** 2) - (k * Math.cos(t)) ** 2 / 2;
}

/**
 * psi(u) = E[clip(u + e, -c, c)], what others predict on average, their noise e of scale s along x. With F the
 * law of e at s = 1 and K(z) the integral of F - 1/2 from 0 to z it is s [K((c + u)/s) - K((c - u)/s)].
 */
function clippedCurve(c, d, s) {
  if (!(s > 0)) return (u) => clip(u, c);
  const K = antiderivative(d);
  return (u) => s * (K((c + u) / s) - K((c - u) / s));
}

/** K, from e = sqrt(tau) Z, Z normal and tau/2 ~ Gamma((d+1)/2): the trapezoidal rule in log tau. */
function antiderivative(d) {
  const a = (d + 1) / 2;
  const start = Math.log(2 * a) - 42 / a - 9 / Math.sqrt(a);
  const end = Math.log(2 * (a + 50 + 10 * Math.sqrt(a)));
  const step = Math.min(0.2, 0.5 / Math.sqrt(a));
  const nodes = [];
  for (let i = 0; start + i * step < end; i++) {
    const tau = Math.exp(start + i * step);
    nodes.push([Math.sqrt(tau), Math.exp(a * Math.log(tau / (2 * a)) - (tau - 2 * a) / 2)]);
  }
  const mass = sum(nodes, ([, weight]) => weight);
  const far = 40 + 9 * Math.sqrt(d + 1);
  const half = sum(nodes, ([root, weight]) => root * weight) / mass / Math.sqrt(2 * Math.PI);
  return (z) => {
    const size = Math.abs(z);
    if (size > far) return size / 2 - half;
    return sum(nodes, ([root, weight]) => root * weight * kappa(size / root)) / mass;
  };
}

/** K for the normal law. */
function kappa(x) {
  return (x * erf(x / Math.SQRT2)) / 2 + Math.expm1((-x * x) / 2) / Math.sqrt(2 * Math.PI);
}

// 4. The payment --------------------------------------------------------------------------------------------------

/** What a payment starts from: at least a, and enough that nobody whose predictions reach so far can end up below 0. */
function baseOf({ rule, a, b }, reach) {
  return Math.max(a, b * ((rule === "brier" ? reach : 0) + 3.0 * reach * reach));
}

/** `reach` is how far predictions go, so that payments are kept between 0 and the most; null if they are not kept so. */
function pay({ rule, b }, base, reach, p, q) {
  const linear = rule === "brier" ? 1 : 0;
  let exact = base + b * (2.0 * p * q - q * q - linear * p);
  if (reach !== null) exact = Math.min(Math.max(exact, 0), base + b * (linear * reach + reach ** 2));
  return Math.floor(exact * STEPS) / STEPS;
}

// Mathematics -----------------------------------------------------------------------------------------------------

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

function norm(a) {
  return Math.sqrt(dot(a, a));
}

function near(one, other, tolerance) {
  return Math.abs(one - other) <= tolerance;
}

function sum(items, value) {
  let total = 0;
  for (const item of items) total += value(item);
  return total;
}

function clip(value, limit) {
  return Math.min(Math.max(value, -limit), limit);
}

/** The error function: a series of positive terms. */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let total = x;
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(total); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    total += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
}

/** log P(chi^2_k <= x) as a function of x; 0 for k = 0. P(a, h) = h^a e^-h / Gamma(a+1) (1 + h/(a+1) + ...). */
function logChi2(k) {
  if (k === 0) return () => 0;
  const a = k / 2;
  let logGamma = k % 2 ? Math.log(Math.sqrt(Math.PI)) : 0;
  for (let factor = a; factor > 0; factor--) logGamma += Math.log(factor);
  return (x) => {
    const h = x / 2;
    if (h > a + 40 + 10 * Math.sqrt(a)) return 0;
    let term = 1;
    let total = 1;
    for (let n = 1; term > 1e-18 * total; n++) {
      term *= h / (a + n);
      total += term;
    }
    return a * Math.log(h) - h - logGamma + Math.log(total);
  };
}

/** Nodes and weights of Gauss and Legendre on [-1, 1], 16 of them, by Newton's method. */
const GAUSS = Array.from({ length: 16 }, (_, i) => {
  const n = 16;
  let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
  let slope = 1;
  for (let round = 0; round < 8; round++) {
    let [before, now] = [1, x];
    for (let k = 2; k <= n; k++) [before, now] = [now, ((2 * k - 1) * x * now - (k - 1) * before) / k];
    slope = (n * (x * now - before)) / (x * x - 1);
    x -= now / slope;
  }
  return [x, 2 / ((1 - x * x) * slope * slope)];
});

/**
 * E[value] under a density given by its logarithm: where it is not negligible, in pieces between the bends of the value,
 * with twice the panels until it stays.
 */
function expectation(low, high, bends, logWeight, value, unit) {
  for (let round = 0; round < 3; round++) [low, high] = narrowed(low, high, logWeight);
  const ends = [low, ...bends.filter((t) => t > low && t < high), high];
  let last = Infinity;
  let change = Infinity;
  for (let panels = 8; panels <= 8192; panels *= 2) {
    const next = composite(ends, panels, logWeight, value);
    const before = change;
    change = Math.abs(next - last);
    last = next;
    if (change <= 1e-13 * unit || (change <= 1e-12 * unit && before <= 1e-12 * unit)) break;
  }
  return { value: last, error: change };
}

/** The part of an interval outside of which the density is below e^-50 of its largest value. */
function narrowed(low, high, logWeight) {
  const cells = 1000;
  const width = (high - low) / cells;
  const logs = Array.from({ length: cells }, (_, i) => logWeight(low + (i + 0.5) * width));
  const most = Math.max(...logs);
  const first = logs.findIndex((log) => log > most - 50);
  const end = cells - 1 - logs.reverse().findIndex((log) => log > most - 50);
  return [first ? low + (first - 1) * width : low, end < cells - 1 ? low + (end + 2) * width : high];
}

function composite(ends, panels, logWeight, value) {
  const points = [];
  for (let piece = 1; piece < ends.length; piece++) {
    const half = (ends[piece] - ends[piece - 1]) / (2 * panels);
    for (let k = 0; k < panels; k++) {
      for (const [node, weight] of GAUSS) {
        const t = ends[piece - 1] + (2 * k + 1 + node) * half;
        points.push([t, weight * half, logWeight(t)]);
      }
    }
  }
  const most = points.reduce((best, [, , log]) => Math.max(best, log), -Infinity);
  let mass = 0;
  let total = 0;
  for (const [t, weight, log] of points) {
    const w = weight * Math.exp(log - most);
    if (log - most < -57) continue;
    mass += w;
    total += w * value(t);
  }
  return total / mass;
}
