"use strict";
// Draws one section per profile. Names and statements come from the user, so they are only ever set as text.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1360;
const KINDS = [
  ["gemm", "GEMM"],
  ["vector", "vector program"],
  ["scalar", "not vectorized"],
  ["other", "other code"],
];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

function kind(call) {
  if (call.methods.some((method) => method.not_vectorized)) return "scalar";
  if (call.methods.some((method) => method.name.startsWith("GEMM"))) return "gemm";
  return call.methods.some((method) => method.name.includes("vector")) ? "vector" : "other";
}

const micros = (us) =>
  us >= 1e6 ? `${(us / 1e6).toFixed(2)} s` : us >= 1e3 ? `${(us / 1e3).toFixed(2)} ms` : `${us.toFixed(1)} µs`;

function bytes(count) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}

// The first elements, and the others behind a line that unfolds them.
function folded(all, unit) {
  const FIRST = 5;
  if (all.length <= FIRST + 2) return all;
  const rest = element("details", {}, element("summary", {}, `${all.length - FIRST} more ${unit}`), ...all.slice(FIRST));
  rest.addEventListener("click", (event) => event.stopPropagation());
  return [...all.slice(0, FIRST), rest];
}

const median = (call) => (call.time ? call.time.median_us : 0);
const rate = (amount, call) => (median(call) > 0 ? amount / median(call) / 1e3 : 0);
const names = (operands) => operands.map((operand) => operand.name).join(", ");
const method = (one) => one.name + (one.choices ? ` (${one.choices})` : "");

function place(statement) {
  if (statement.call) return `line ${statement.user_line}, in ${statement.call}: `;
  return statement.line ? `${statement.line}: ` : "";
}

// The text that groups neighboring calls: the line of the user's program, or the statement without one.
function group(call) {
  const statement = call.statements.at(-1);
  if (!statement) return call.kernel;
  const text = statement.call || statement.text;
  const others = call.statements.length - 1;
  const label = (statement.user_line ? `${statement.user_line}: ` : "") + text.replace(/\s+/g, " ");
  return others > 0 && !statement.call ? `${label}, and ${others} more statement${others === 1 ? "" : "s"}` : label;
}

// Begin and end of each call: those of a typical run, or, without one, one unit after the other.
function intervals(profile) {
  if (profile.calls.every((call) => call.interval)) {
    return profile.calls.map((call) => [call.interval.begin_us, call.interval.end_us]);
  }
  return profile.calls.map((_, at) => [at, at + 1]);
}

const tip = document.getElementById("tip");

function describe(profile, at) {
  const call = profile.calls[at];
  const lines = [
    element("b", {}, `${at + 1}. ${call.kernel}`),
    element("div", {}, call.time ? `median ${micros(median(call))}` : "not timed"),
    element("div", {}, call.methods.map(method).join(", then ")),
    element("div", {}, `writes ${names(call.writes)}`),
    element("div", {}, `reads ${names(call.reads)}`),
  ];
  for (const statement of call.statements.slice(0, 8)) {
    lines.push(element("code", {}, place(statement) + statement.text));
  }
  for (const one of call.methods.filter((one) => one.not_vectorized)) {
    lines.push(element("div", {}, `no vector program: ${one.not_vectorized}`));
  }
  return lines;
}

function showTip(event, lines) {
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - height - 8))}px`;
}

function hover(target, lines) {
  target.addEventListener("mousemove", (event) => showTip(event, lines()));
  target.addEventListener("mouseleave", () => { tip.hidden = true; });
}

// The state of a section: the part of the run that its charts show, and the chosen call.
class Section {
  constructor(profile, root) {
    this.profile = profile;
    this.root = root;
    this.times = intervals(profile);
    this.isTimed = profile.calls.every((call) => call.interval);
    this.end = Math.max(...this.times.map(([, end]) => end), 1e-9);
    this.shown = [0, this.end];
    this.chosen = -1;
    this.sorted = { column: 0, down: false };
    this.build();
  }

  build() {
    const { profile } = this;
    this.root.append(element("h1", {}, profile.routine), ...this.facts());
    if (profile.calls.length > 0) {
      const title = this.isTimed ? "A run of median duration: lines of the program, and kernel calls" : "Kernel calls in order, not timed";
      this.root.append(element("h2", {}, `${title}. Click to zoom, double-click for the whole run`), this.legend());
      this.flame = shape("svg", { class: "chart" });
      this.memory = shape("svg", { class: "chart" });
      this.root.append(this.flame, element("h2", {}, "Live bytes, and the temporaries by their place in memory"), this.memory);
      this.table = element("table");
      this.root.append(element("h2", {}, "Kernel calls"), element("div", { class: "scroll" }, this.table));
    }
    this.draw();
  }

  facts() {
    const { profile } = this;
    const kernels = profile.calls.reduce((sum, call) => sum + median(call), 0);
    const fact = (value, name) => element("div", { class: "fact" }, element("b", {}, value), element("span", {}, name));
    const facts = element("div", { class: "facts" });
    if (profile.run_time) {
      facts.append(fact(micros(profile.run_time.median_us), `median of ${profile.run_time.count} runs`));
    }
    if (kernels > 0) facts.append(fact(micros(kernels), "in kernels"));
    facts.append(fact(profile.calls.length, "kernel calls"));
    const flops = profile.calls.reduce((sum, call) => sum + call.cost.flops, 0);
    if (kernels > 0) facts.append(fact(`${(flops / kernels / 1e3).toFixed(1)} GFLOP/s`, "in kernels"));
    facts.append(fact(bytes(Math.max(0, ...profile.memory.live_bytes)), "alive at most"));
    const words = [element("p", {}, `${profile.device}, ${profile.threads} thread${profile.threads === 1 ? "" : "s"}`)];
    if (profile.roofline) {
      const at = profile.roofline.bandwidths.map((one) => `${bytes(one.footprint)} ${(one.bytes_per_second / 1e9).toFixed(0)}`);
      const peak = `${(profile.roofline.flops / 1e9).toFixed(0)} GFLOP/s (${profile.roofline.flops_of})`;
      words.push(element("p", {}, `Roofline: ${peak}; GB/s at footprints of ${at.join(", ")}`));
    }
    for (const note of profile.notes) words.push(element("p", {}, `Note: ${note}.`));
    return [...words, facts];
  }

  legend() {
    const legend = element("div", { class: "legend" });
    for (const [name, words] of KINDS) {
      if (this.profile.calls.some((call) => kind(call) === name)) {
        legend.append(element("span", {}, element("i", { class: name }), words));
      }
    }
    return legend;
  }

  x(time) {
    return (time - this.shown[0]) / (this.shown[1] - this.shown[0]) * WIDTH;
  }

  zoom(begin, end) {
    const margin = (end - begin) * 0.02;
    this.shown = [Math.max(0, begin - margin), Math.min(this.end, end + margin)];
    this.draw();
  }

  choose(at) {
    this.chosen = this.chosen === at ? -1 : at;
    this.draw();
  }

  draw() {
    if (!this.flame) return;
    this.drawFlame();
    this.drawMemory();
    this.drawTable();
  }

  // A rectangle from begin to end, with a label if there is room.
  box(svg, name, [begin, end], y, height, label) {
    const [left, right] = [Math.max(0, this.x(begin)), Math.min(WIDTH, this.x(end))];
    if (right < 0 || left > WIDTH || right < left) return null;
    const width = Math.max(right - left, 0.6);
    const rect = shape("rect", { class: name, x: left, y, width, height, rx: width > 6 ? 2 : 0 });
    svg.append(rect);
    const room = Math.floor((width - 8) / 6.2);
    if (room >= 3) {
      const text = label.length > room ? `${label.slice(0, room - 1)}…` : label;
      const inside = name.startsWith("call") ? "inside" : "";
      svg.append(shape("text", { x: left + 4, y: y + height / 2 + 4, class: inside }, text));
    }
    return rect;
  }

  axis(svg, y, height) {
    if (!this.isTimed) return;
    const length = this.shown[1] - this.shown[0];
    let step = 10 ** Math.floor(Math.log10(length / 6));
    step *= [1, 2, 5, 10].find((factor) => length / (step * factor) <= 10) || 10;
    for (let time = Math.ceil(this.shown[0] / step) * step; time <= this.shown[1]; time += step) {
      const x = this.x(time);
      svg.append(shape("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height }));
      if (y && x < WIDTH - 60) svg.append(shape("text", { class: "axis", x: x + 3, y }, micros(time)));
    }
  }

  groups() {
    const groups = [];
    this.profile.calls.forEach((call, at) => {
      const name = group(call);
      const last = groups.at(-1);
      if (last && last.name === name) last.last = at;
      else groups.push({ name, first: at, last: at });
    });
    return groups;
  }

  drawFlame() {
    const { flame: svg, profile } = this;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${WIDTH} 126`);
    svg.ondblclick = () => this.zoom(0, this.end);
    this.axis(svg, 14, 126);
    const whole = profile.run_time && this.isTimed ? `${profile.routine}, ${micros(this.end)}` : profile.routine;
    this.box(svg, "group", [0, this.end], 20, 26, whole).addEventListener("click", () => this.zoom(0, this.end));
    for (const { name, first, last } of this.groups()) {
      const range = [this.times[first][0], this.times[last][1]];
      const rect = this.box(svg, "group", range, 50, 30, name);
      if (!rect) continue;
      rect.addEventListener("click", () => this.zoom(...range));
      hover(rect, () => [element("code", {}, name), element("div", {}, `calls ${first + 1} to ${last + 1}`)]);
    }
    profile.calls.forEach((call, at) => {
      const chosen = at === this.chosen ? " chosen" : "";
      const rect = this.box(svg, `call ${kind(call)}${chosen}`, this.times[at], 84, 34, call.writes.map((node) => node.name).join(", ") || call.kernel);
      if (!rect) return;
      rect.addEventListener("click", () => this.choose(at));
      hover(rect, () => describe(profile, at));
    });
  }

  drawMemory() {
    const { memory: svg, profile: { memory, calls } } = this;
    const height = 150;
    const pool = memory.temporary_pool_bytes > 0 ? 110 : 0;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height + pool}`);
    svg.ondblclick = () => this.zoom(0, this.end);
    this.axis(svg, 0, height + pool);
    const peak = Math.max(...memory.live_bytes, 1);
    const y = (count) => height - count / peak * (height - 22);
    const nodes = memory.nodes.reduce((sum, node) => sum + node.bytes, 0);
    calls.forEach((_, at) => {
      // Up to the begin of the next call, so that the area has no gaps.
      const end = at + 1 < calls.length ? this.times[at + 1][0] : this.times[at][1];
      const [left, right] = [Math.max(0, this.x(this.times[at][0])), Math.min(WIDTH, this.x(end))];
      if (right <= left) return;
      const top = y(memory.live_bytes[at]);
      const rect = shape("rect", { class: "live", x: left, y: top, width: right - left + 0.3, height: height - top });
      svg.append(rect);
      hover(rect, () => [
        element("b", {}, `call ${at + 1}: ${bytes(memory.live_bytes[at])} alive`),
        element("div", {}, `${bytes(nodes)} of nodes`),
        ...memory.temporaries.filter(({ calls: [first, last] }) => first <= at && at <= last)
          .sort((a, b) => b.bytes - a.bytes).slice(0, 12)
          .map((temporary) => element("div", {}, `${temporary.name}: ${bytes(temporary.bytes)}`)),
      ]);
    });
    svg.append(shape("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(nodes), y2: y(nodes) }));
    svg.append(shape("text", { x: 4, y: Math.max(y(nodes) - 4, 28) }, `${bytes(nodes)} of nodes`));
    svg.append(shape("text", { x: 4, y: 14 }, `${bytes(peak)} at most`));
    for (const temporary of memory.temporaries) {
      const { offset, bytes: size, calls: [first, last] } = temporary;
      const scale = (pool - 10) / memory.temporary_pool_bytes;
      const range = [this.times[first][0], this.times[last][1]];
      const rect = this.box(svg, "pool", range, height + 8 + offset * scale, Math.max(size * scale, 0.5),
        size * scale > 11 ? temporary.name : "");
      if (rect) hover(rect, () => [element("b", {}, temporary.name), element("div", {}, `${bytes(size)} at byte ${offset}, calls ${first + 1} to ${last + 1}`)]);
    }
  }

  columns() {
    const whole = this.profile.calls.reduce((sum, call) => sum + median(call), 0);
    const time = (call, text) => (call.time ? text : "–");
    const share = (call) => (call.roofline_share ? call.roofline_share.share : -1);
    return [
      ["call", (call, at) => at, (_, at) => `${at + 1}`],
      ["median µs", median, (call) => time(call, median(call).toFixed(1))],
      ["% of kernels", median, (call) => {
        const part = whole > 0 ? 100 * median(call) / whole : 0;
        const bar = element("span", { class: `bar ${kind(call)}`, style: `width:${part.toFixed(1)}px` });
        return element("span", {}, part.toFixed(1), bar);
      }],
      ["total ms", (call) => (call.time ? call.time.total_us : 0), (call) => time(call, call.time && (call.time.total_us / 1e3).toFixed(2))],
      ["Mflop", (call) => call.cost.flops, (call) => (call.cost.flops / 1e6).toFixed(3)],
      ["bytes", (call) => call.cost.bytes, (call) => bytes(call.cost.bytes)],
      ["GFLOP/s", (call) => rate(call.cost.flops, call), (call) => time(call, rate(call.cost.flops, call).toFixed(2))],
      ["GB/s", (call) => rate(call.cost.bytes, call), (call) => time(call, rate(call.cost.bytes, call).toFixed(2))],
      ["of roofline", share, (call) => (share(call) < 0 ? "–" : `${(100 * share(call)).toFixed(0)} % of ${call.roofline_share.limit === "memory" ? "bytes" : "flops"}`)],
      ["nodes and statements", null, (call) => {
        const cell = element("div", {}, `${names(call.writes)} ← ${names(call.reads)}`);
        const lines = call.statements.map((statement) => element("code", {}, place(statement) + statement.text));
        cell.append(...folded(lines, "statements"));
        return cell;
      }],
      ["compiled as", (call) => kind(call), (call) => {
        const parts = call.methods.map((one) => {
          const part = element("div", {}, method(one));
          if (one.not_vectorized) part.append(element("div", { class: "why" }, `no vectors: ${one.not_vectorized}`));
          return part;
        });
        return element("div", {}, ...folded(parts, "parts"));
      }],
    ];
  }

  drawTable() {
    const columns = this.columns();
    const { column, down } = this.sorted;
    const head = element("tr");
    columns.forEach(([name, key], at) => {
      const classes = [key ? "" : "words", at === 10 ? "words" : "", at === column ? (down ? "down" : "up") : ""];
      const cell = element("th", { class: classes.join(" ").trim() }, name);
      if (key) {
        cell.addEventListener("click", () => {
          this.sorted = { column: at, down: at === column ? !down : at > 0 };
          this.drawTable();
        });
      }
      head.append(cell);
    });
    const calls = this.profile.calls.map((call, at) => [call, at]);
    const key = columns[column][1];
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    calls.sort(([a, i], [b, j]) => (down ? -1 : 1) * compare(key(a, i), key(b, j)));
    const body = element("tbody");
    for (const [call, at] of calls) {
      const row = element("tr", at === this.chosen ? { class: "chosen" } : {});
      columns.forEach(([, , cell], position) => {
        row.append(element("td", position >= 9 ? { class: "words" } : {}, cell(call, at)));
      });
      row.addEventListener("click", () => this.choose(at));
      body.append(row);
    }
    this.table.replaceChildren(element("thead", {}, head), body);
    if (this.chosen >= 0) body.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  }
}

for (const profile of JSON.parse(document.getElementById("data").textContent)) {
  const root = element("section");
  document.getElementById("profiles").append(root);
  new Section(profile, root);
}
