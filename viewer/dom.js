// Elements. Text only ever enters the page as a text node, so a name cannot become markup.

function find(id) {
  return document.getElementById(id);
}

// make("a", {class: "x", href: "#", onclick: f}, "text", element, null, …)
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on'))
      element.addEventListener(name.slice(2), value);
    else
      element.setAttribute(name, value === true ? '' : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

function button(text, onclick, attributes = {}) {
  return make('button', {type: 'button', onclick, ...attributes}, text);
}

// A <select> of [value, text] pairs.
function chooser(label, pairs, chosen, onchange, attributes = {}) {
  const select = make(
      'select', {'aria-label': label, ...attributes},
      pairs.map(([value, text]) => make('option', {value, selected: value === chosen}, text)));
  select.addEventListener('change', () => onchange(select.value));
  return select;
}

function checkbox(label, checked, onchange, attributes = {}) {
  const box = make('input', {type: 'checkbox', checked, ...attributes});
  box.addEventListener('change', () => onchange(box.checked));
  return make('label', {class: 'check'}, box, label);
}

// A long name as text that may go on in the next line after any of its parts.
function breakable(text) {
  return String(text).split(/(?<=[./:_@])(?=[^./:_@])/).flatMap((part, i) => (i ? [make('wbr'), part] : [part]));
}

// Puts the first `most` items into a list, and a button for more, so that no report makes a page too heavy.
function grow(list, items, most, draw) {
  let shown = 0;
  const more = () => {
    const next = items.slice(shown, shown + most);
    shown += next.length;
    append(list, next.map(draw));
    const left = items.length - shown;
    if (!left) return;
    const text = `show ${count_text(Math.min(most, left))} of ${count_text(left)} more`;
    const entry = make(list.tagName === 'TBODY' ? 'tr' : 'li', {class: 'more'});
    const press = button(text, () => {
      entry.remove();
      more();
    }, {class: 'link'});
    entry.append(list.tagName === 'TBODY' ? make('td', {colspan: 9}, press) : press);
    list.append(entry);
  };
  more();
  return list;
}
