// Numbers as the report holds them ("nan", "inf" and "-inf" for what JSON lacks, null for what is not known) and as
// people read them.

function number_of(value) {
  if (typeof value === 'number') return value;
  if (value === 'nan') return NaN;
  if (value === 'inf') return Infinity;
  if (value === '-inf') return -Infinity;
  return null;
}

// A list of numbers that are 0 or more, plain or packed (src/report/packed_numbers.h).
function numbers_of(list) {
  if (!list) return [];
  if (Array.isArray(list)) return list.map(number_of);
  const bytes = Uint8Array.from(atob(list.base64), (letter) => letter.charCodeAt(0));
  const codes = new DataView(bytes.buffer);
  const low = Math.log(number_of(list.low));
  const step = (Math.log(number_of(list.high)) - low) / 65533;
  return Array.from({length: bytes.length / 2}, (_, i) => {
    const code = codes.getUint16(2 * i, true);
    if (code === 0) return 0;
    return code === 65535 ? Infinity : Math.exp(low + (code - 1) * step);
  });
}

function number_text(value, digits = 3) {
  if (typeof value === 'string' && number_of(value) === null) return value;  // an integer beyond what JSON can hold
  const number = number_of(value);
  if (number === null) return '–';
  if (Number.isNaN(number)) return 'nan';
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf';
  if (Number.isInteger(number) && Math.abs(number) < 1e6) return String(number);
  const size = Math.abs(number);
  if (size >= 1e-3 && size < 1e5) return String(Number(number.toPrecision(digits)));
  return number.toExponential(digits - 1).replace(/\.?0+e/, 'e').replace('e+', 'e');
}

function count_text(number) {
  return Number(number).toLocaleString('en');
}

function counted(number, one, many = `${one}s`) {
  return `${count_text(number)} ${number === 1 ? one : many}`;
}

function share_text(part, whole) {
  if (!whole) return '–';
  const share = (100 * part) / whole;
  if (part && share < 0.01) return '< 0.01 %';
  return `${Number(share.toPrecision(3))} %`;
}

function shape_text(shape) {
  return Array.isArray(shape) ? `[${shape.join(', ')}]` : '–';
}

// `[0, 3]`, with what an element of two values calls its second part.
function place_text(index, part, dtype) {
  const where = Array.isArray(index) ? `[${index.join(', ')}]` : '–';
  if (!part) return where;
  return where + (String(dtype).startsWith('c') ? '.imag' : '.high');
}

// 10^exponent for an axis.
function power_text(exponent) {
  if (exponent >= -2 && exponent <= 3) return String(Number((10 ** exponent).toPrecision(2)));
  return `10<sup>${exponent < 0 ? '−' : ''}${Math.abs(exponent)}</sup>`;
}
