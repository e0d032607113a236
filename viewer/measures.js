// What is measured of a pair of tensors, and what each number means.

// The errors one can choose to look at everywhere: 0 is equal, larger is worse.
const ERRORS = [
  {
    id: 'relative',
    name: 'relative error',
    short: 'relative',
    explain: 'RMSE / RMS of A: the size of the error against the size of the tensor. The measure to begin with.',
    of: (m) => 'relative' in m ? number_of(m.relative) : ratio(number_of(m.rmse), number_of(m.rms_a))
  },
  {
    id: 'max_abs',
    name: 'largest absolute error',
    short: 'max abs',
    explain: 'The largest |b − a| of any element.',
    of: (m) => number_of(m.max_abs)
  },
  {
    id: 'max_rel',
    name: 'largest relative error',
    short: 'max rel',
    explain: 'The largest |b − a| / |a|. Large where a is close to 0, and often harmless there.',
    of: (m) => number_of(m.max_rel)
  },
  {
    id: 'ulp',
    name: 'largest ULP distance',
    short: 'ULP',
    explain: 'Steps of the coarser dtype between the two values. A few are rounding; millions are not.',
    of: (m) => number_of(m.max_ulp)
  },
  {
    id: 'cosine',
    name: '1 − cosine',
    short: '1 − cos',
    explain: 'How far the two tensors, taken as vectors, point in different directions. Blind to a common factor.',
    of: (m) => {
      const cosine = number_of(m.cosine);
      return cosine === null ? null : Math.max(0, 1 - cosine);
    }
  },
];

function ratio(part, whole) {
  if (part === null || whole === null) return null;
  if (part === 0) return 0;
  return whole === 0 ? Infinity : part / whole;
}

function has_mismatch(tensor) {
  const m = tensor.measures;
  return Boolean(m) && (number_of(m.nan_mismatches) > 0 || number_of(m.inf_mismatches) > 0);
}

// The error of a tensor by one measure; null where there is none to tell, infinite where NaN or infinity do not match.
function error_of(tensor, measure) {
  if (!tensor.measures) return tensor.verdict === 'identical' ? 0 : null;
  if (has_mismatch(tensor)) return Infinity;
  const value = ERRORS.find((error) => error.id === measure).of(tensor.measures);
  if (value !== null && Number.isNaN(value)) return number_of(tensor.measures.unequal) === 0 ? 0 : null;
  return value;
}

// Every number of a tensor's detail: [id, name, explanation, text of it].
const MEASURES = [
  [
    'outside', 'out of tolerance',
    'Elements that differ by more than the tolerance allows; NaN and Inf mismatches among them.',
    (m) => part_text(m.outside, m.count)
  ],
  ['unequal', 'not equal', 'Elements whose values differ at all; −0 equals 0.', (m) => part_text(m.unequal, m.count)],
  ['relative', 'relative error', ERRORS[0].explain, (m) => number_text(ERRORS[0].of(m), 4)],
  ['max_abs', 'max |b − a|', ERRORS[1].explain],
  ['mean_abs', 'mean |b − a|', 'The mean absolute error: how far apart a typical element is.'],
  ['max_rel', 'max |b − a| / |a|', ERRORS[2].explain],
  ['rmse', 'RMSE', 'The root of the mean squared error: as the mean, but large errors weigh more.'],
  [
    'cosine', 'cosine', '1: the same direction. 0: nothing to do with one another. −1: the opposite.',
    (m) => cosine_text(number_of(m.cosine))
  ],
  [
    'sqnr_db', 'SQNR', 'Signal to error in dB, 10 log10(Σa² / Σ(b − a)²): 20 dB more is an error ten times smaller.',
    (m) => (number_of(m.sqnr_db) === null ? '–' : `${number_text(m.sqnr_db, 4)} dB`)
  ],
  ['max_ulp', 'max ULP', ERRORS[3].explain],
  ['p99_ulp', '99 % ULP', '99 % of the elements are at most this many steps of the coarser dtype apart.'],
  ['rms_a', 'RMS of A', 'The root mean square of A: how large a typical element is.'],
  ['rms_b', 'RMS of B', 'The same of B. Another size than A\'s hints at a scale or an epsilon.'],
  ['nan_mismatches', 'NaN mismatches', 'Elements where one side is NaN and the other is not.'],
  ['inf_mismatches', 'Inf mismatches', 'Elements where one side is infinite and the other is not that infinity.'],
  ['count', 'elements', 'Values that were compared.', (m) => count_of(m.count)],
  [
    'finite', 'finite', 'Of them, those finite on both sides; the errors above are over these.',
    (m) => count_of(m.finite)
  ],
];

function count_of(value) {
  return number_of(value) === null ? '–' : count_text(value);
}

function part_text(part, whole) {
  if (number_of(part) === null) return '–';
  return `${count_text(part)} (${share_text(part, number_of(whole))})`;
}

// Close to 1 the digits that tell are at the end.
function cosine_text(cosine) {
  if (cosine === null || Number.isNaN(cosine) || cosine < 0.99 || cosine === 1) return number_text(cosine, 4);
  return cosine >= 1 - 1e-15 ? '1' : cosine.toFixed(Math.min(15, 3 - Math.floor(Math.log10(1 - cosine))));
}
