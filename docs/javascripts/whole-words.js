// Numbers and words of code stay in one piece: "14 000", "0.982 ± 0.018" and "--train.seed" are not broken into two lines.
// Cells with sentences get some width.
for (const cell of document.querySelectorAll(".md-typeset td")) {
  const isNumber = /^[\d\s.,±%–-]+$/.test(cell.textContent);
  if (isNumber || cell.textContent.startsWith("not run")) cell.classList.add("whole");
  if (cell.textContent.length > 60) cell.classList.add("sentences");
}

const LONGEST = 40; // letters that a phone has room for

const whole = (word) => {
  const span = document.createElement("span");
  span.className = "whole";
  span.textContent = word;
  return span;
};

for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
  if (code.children.length > 0) continue;
  const parts = code.textContent.split(/( )/);
  code.replaceChildren(...parts.map((part) => (part === " " || part.length > LONGEST ? part : whole(part))));
}
