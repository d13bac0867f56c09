// Words to the visitor: a note over the page, and news for those who do not see what has changed.

const LONG = 8000; // milliseconds that a note stays
const element = (id) => document.getElementById(id);
let hiding = 0;

export function say(text, isLasting = false) {
  clearTimeout(hiding);
  element("message").textContent = text;
  element("message").hidden = !text;
  if (text && !isLasting) hiding = setTimeout(() => say(""), LONG);
}

export function tell(text) { element("news").textContent = text; }

const WAITS = "The server is busy. This page waits for its answer.";

export function sayBusy(isBusy) {
  if (isBusy) say(WAITS, true);
  else if (element("message").textContent === WAITS) say("");
}
