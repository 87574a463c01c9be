// The live panel. Rows come in (messages {kind: "rows"}), pixels go out; big texts are asked for when they are opened.

const TABS = [
  ["compilations", "Compilations", ["compilations"]],
  ["breaks", "Graph breaks", ["breaks"]],
  ["guards", "Guards", ["recompilations"]],
  ["fusion", "Fusion", ["groups"]],
  ["kernels", "Kernels", ["kernels"]],
  ["problems", "Problems", ["problems"]],
];
const LIMIT = 300; // rows of one table that are kept here, as in the kernel
const STAGES = 8; // colours of stages, in order of first appearance
const PATIENCE = 700; // ms without an answer until we say that the kernel is busy

// -- small pieces ---------------------------------------------------------------------------------------------------

function h(tag, attributes = {}, ...children) {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return el;
}

// JupyterLab keeps its command-mode keys away from a focused control only if the control itself says so.
const quiet = { "data-lm-suppress-shortcuts": "true" };
const button = (label, attributes) => h("button", { type: "button", class: "fl-button", ...quiet, ...attributes }, label);
const code = (text) => h("code", {}, text);
const soft = (text) => (text ? h("span", { class: "fl-soft" }, text) : null);
const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
const empty = (text) => h("p", { class: "fl-empty" }, text);

function fold(head, open, attributes = {}) {
  // A <details> whose body is made when it is first opened.
  const el = h("details", { class: "fl-fold", ...attributes }, h("summary", quiet, head));
  el.addEventListener("toggle", () => {
    if (el.open && !el.dataset.made) {
      el.dataset.made = "1";
      open(el);
    }
  });
  return el;
}

function isDark() {
  const body = document.body;
  if ("jpThemeLight" in body.dataset) return body.dataset.jpThemeLight === "false";
  if (body.classList.contains("vscode-dark") || body.classList.contains("vscode-high-contrast")) return true;
  if (body.classList.contains("vscode-light")) return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// -- what is known --------------------------------------------------------------------------------------------------

class Tables {
  constructor() {
    this.rows = {};
    this.stages = [];
  }

  take(changes) {
    // Rows with a known key replace the old one; the oldest go when there are too many.
    for (const [table, rows] of Object.entries(changes)) {
      const kept = (this.rows[table] ??= new Map());
      for (const row of rows) kept.set(row.key, row);
      for (const key of kept.keys()) {
        if (kept.size <= LIMIT) break;
        kept.delete(key);
      }
    }
    for (const row of changes.compilations ?? []) this.order(row.stages.map(([name]) => name));
  }

  order(names) {
    // A stage that is new stands after the one that ran before it.
    names.forEach((name, i) => {
      if (!this.stages.includes(name)) this.stages.splice(this.stages.indexOf(names[i - 1]) + 1, 0, name);
    });
  }

  list(table) {
    return [...(this.rows[table]?.values() ?? [])];
  }

  of(table, compileId) {
    return this.list(table).filter((row) => row.compile_id === compileId);
  }

  get size() {
    return Object.values(this.rows).reduce((n, rows) => n + rows.size, 0);
  }
}

// -- the views: each gives the element of one row ---------------------------------------------------------------------

function bar(tables, row, longest) {
  const parts = row.stages.map(([name, spent, said]) =>
    h("i", { class: `fl-stage fl-stage-${tables.stages.indexOf(name) % STAGES}`, style: `flex-grow:${Math.round(spent * 1e6) + 1}`, title: `${name} ${said}` }));
  const words = row.stages.map(([name, , said]) => `${name} ${said}`).join(", ");
  const width = longest ? Math.max(2, (100 * row.seconds) / longest) : 100;
  return h("span", { class: "fl-track", role: "img", "aria-label": words || "no stage has finished" },
    h("span", { class: "fl-bar", style: `width:${width}%` }, parts));
}

const RESULTS = { running: "compiling…", compiled: "compiled", eager: "runs in eager", failed: "failed", skipped: "runs as it is" };

function compilation(panel, row) {
  const { tables } = panel;
  const longest = Math.max(...tables.list("compilations").map((c) => c.seconds));
  const name = h("span", { class: "fl-name" }, row.function, row.version > 1 ? h("small", {}, ` version ${row.version}`) : null);
  const head = h("span", { class: "fl-row fl-compilation" },
    h("span", { class: `fl-dot fl-${row.result}`, title: RESULTS[row.result] ?? row.result }), name,
    h("span", { class: "fl-soft fl-place" }, row.place),
    row.result === "skipped" ? h("span", { class: "fl-soft fl-why" }, row.reason) : bar(tables, row, longest),
    h("span", { class: "fl-number" }, row.result === "running" ? "…" : row.said));
  return row.result === "skipped" ? h("div", { class: "fl-plain" }, head) : fold(head, (el) => el.append(compilationBody(panel, row)));
}

function compilationBody(panel, row) {
  const { tables } = panel;
  const id = row.compile_id;
  const stages = row.stages.map(([name, , said]) => h("li", {},
    h("i", { class: `fl-key fl-stage-${tables.stages.indexOf(name) % STAGES}` }), `${name} `, h("b", {}, said)));
  const bodies = [
    ...tables.of("graphs", id).map((g) => panel.body("graphs", g,
      ["Graph", soft(`${count(g.nodes, "operation")}, ${count(g.inputs, "input")}`)])),
    ...tables.of("partitions", id).map((p) => panel.body("partitions", p,
      ["Forward and backward", soft(`${p.forward_nodes} and ${p.backward_nodes} operations, ${count(p.saved, "tensor")} saved (${p.saved_said})`)])),
    ...tables.of("schedules", id).map((s) => panel.body("schedules", s,
      ["Loops", soft(`${count(s.kernels, "kernel")}, ${count(s.externs, "call")} into ATen, ${s.peak_said} at the peak`)])),
  ];
  const passes = tables.of("passes", id);
  if (passes.length)
    bodies.push(fold(["Passes", soft(String(passes.length))], (el) => el.append(h("div", { class: "fl-inner" },
      passes.map((p) => panel.body("passes", p, [`${p.stage}: ${p.name}`, soft(p.said)]))))));
  const reason = row.reason ? h("p", { class: "fl-soft" }, row.reason) : null;
  return h("div", { class: "fl-inner" }, h("ul", { class: "fl-legend" }, stages), reason, bodies);
}

function graphBreak(panel, row) {
  const times = row.times > 1 ? `, ${row.times} times` : "";
  return h("article", { class: "fl-card fl-break" },
    h("header", {}, h("b", {}, row.place), " in ", code(row.function), times, h("span", { class: "fl-tag" }, row.id)),
    row.source ? h("pre", { class: "fl-code" }, `${row.source}\n`, h("span", { class: "fl-caret", "aria-hidden": "true" }, row.carets)) : null,
    h("p", {}, row.reason),
    row.hint ? h("p", { class: "fl-hint" }, h("b", {}, "Try "), row.hint) : null,
    row.stack.map((frame) => h("p", { class: "fl-soft" }, `called from ${frame}`)));
}

const change = (row) => [code(row.source), ": expected ", code(row.expected), ", found ", code(row.found)];

function recompilation(panel, row) {
  return h("article", { class: "fl-line" },
    h("span", { class: "fl-name" }, row.function, h("small", {}, ` version ${row.version}`)), h("span", {}, change(row)),
    soft(row.relied_on ? `relied on by ${row.relied_on}` : ""));
}

function failure(panel, row) {
  return h("article", { class: "fl-line" }, h("span", { class: "fl-name" }, row.function),
    h("span", {}, change(row)), soft([row.times > 1 ? `${row.times} times` : "", row.relied_on && `relied on by ${row.relied_on}`].filter(Boolean).join(", ")));
}

function dimension(panel, row) {
  return h("article", { class: "fl-line fl-wide" }, h("span", {}, code(row.source), ` became ${row.became}`),
    soft([row.line, row.reason].filter(Boolean).join(", ")));
}

const guards = (panel, row) => panel.body("guards", row, [h("b", {}, row.function), soft(count(row.count, "guard"))]);
const problem = (panel, row) => h("article", { class: "fl-card" },
  h("header", {}, h("b", {}, row.subject || "a graph"), h("span", { class: "fl-tag" }, row.stage)), h("pre", { class: "fl-code fl-bad" }, row.message),
  row.has_body ? panel.body("problems", row, row.stage === "build" ? "Source" : "Traceback") : null);

function group(panel, row) {
  return h("article", { class: "fl-line fl-group" }, h("span", { class: "fl-name" }, row.kernel),
    h("span", { class: "fl-chips" }, row.nodes.map((node) => h("span", { class: "fl-chip" }, node))));
}

const refusal = (panel, row) => h("article", { class: "fl-line fl-wide" },
  h("span", { class: "fl-chips" }, h("span", { class: "fl-chip" }, row.first), h("span", { class: "fl-chip" }, row.second)), soft(row.reason));
const fallback = (panel, row) => h("article", { class: "fl-line" }, h("span", { class: "fl-name" }, code(row.op), row.times > 1 ? ` ${row.times} times` : ""),
  h("span", {}, row.reason), soft(row.lines));

// -- the kernel editor ------------------------------------------------------------------------------------------------

class Editor {
  // One text area with line numbers; its text survives switching between kernels.
  constructor(panel) {
    this.panel = panel;
    this.drafts = new Map();
    this.results = new Map();
    this.numbers = h("pre", { class: "fl-numbers", "aria-hidden": "true" });
    this.area = h("textarea", {
      class: "fl-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", ...quiet,
      "aria-label": "kernel source", "aria-description": "Control or Command with Enter runs it. Escape, then Tab, leaves the editor.",
      oninput: () => this.changed(), onscroll: () => (this.numbers.scrollTop = this.area.scrollTop), onkeydown: (e) => this.pressed(e),
    });
    this.title = h("div", { class: "fl-kernel-title" });
    this.result = h("output", { class: "fl-result", "aria-live": "polite" });
    this.buttons = {
      run: button("Run", { class: "fl-button fl-primary", title: "Build, compare with eager, and use it if it is right (Ctrl/Cmd+Enter)", onclick: () => this.ask("run") }),
      check: button("Check", { title: "Build and compare with eager, without using it", onclick: () => this.ask("check") }),
      benchmark: button("Benchmark", { title: "Time the kernel in use against the original", onclick: () => this.ask("benchmark") }),
      revert: button("Revert", { title: "Back to the source that was generated", onclick: () => this.ask("revert") }),
    };
    this.el = h("div", { class: "fl-editor", hidden: true }, this.title,
      h("div", { class: "fl-text" }, this.numbers, this.area),
      h("div", { class: "fl-tools", role: "toolbar", "aria-label": "kernel" }, Object.values(this.buttons)), this.result);
  }

  show(row) {
    this.row = row;
    this.el.hidden = false;
    this.title.replaceChildren(h("b", {}, row.name), " ", soft([row.backend, row.state_said, row.lines && `from ${row.lines}`].filter(Boolean).join(" · ")));
    if (this.drafts.has(row.key)) this.fill(this.drafts.get(row.key));
    else {
      this.area.value = "";
      this.area.disabled = true;
      this.panel.send("source", { key: row.key });
    }
    this.tell(this.results.get(row.key) ?? {});
  }

  fill(text) {
    this.area.disabled = false;
    if (this.area.value !== text) this.area.value = text;
    this.number();
  }

  number(bad = 0) {
    const lines = this.area.value.split("\n").length;
    this.numbers.replaceChildren(...Array.from({ length: lines }, (_, i) => h("span", { class: i + 1 === bad ? "fl-bad-line" : "" }, `${i + 1}\n`)));
    this.area.rows = Math.min(24, Math.max(6, lines));
    this.numbers.scrollTop = this.area.scrollTop;
  }

  changed() {
    this.drafts.set(this.row.key, this.area.value);
    this.number();
  }

  pressed(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.ask("run");
    } else if (event.key === "Escape") this.leaving = true;
    else if (event.key === "Tab" && !event.shiftKey && !this.leaving) {
      event.preventDefault();
      this.area.setRangeText("    ", this.area.selectionStart, this.area.selectionEnd, "end");
      this.changed();
    } else this.leaving = false;
    event.stopPropagation();
  }

  ask(action) {
    if (!this.row || this.area.disabled) return;
    this.tell({ text: { run: "building…", check: "building…", benchmark: "timing…", revert: "reverting…" }[action], busy: true });
    this.panel.send(action, { key: this.row.key, source: this.area.value });
  }

  answer(message) {
    // The kernel in Python is the truth: its source comes back with every answer.
    const mine = this.row && message.key === this.row.key;
    if (message.kind === "source" || message.action === "revert") {
      if (message.source !== undefined) this.drafts.set(message.key, message.source);
      if (mine) message.source === undefined ? this.fill("") : this.fill(message.source);
    }
    if (mine) this.area.readOnly = Boolean(message.read_only);
    if (mine) for (const el of Object.values(this.buttons)) el.disabled = Boolean(message.read_only);
    if (message.text === undefined) return;
    this.results.set(message.key, message);
    if (mine) this.tell(message);
  }

  tell({ text = "", ok, busy = false, line = 0, column = 0, read_only = false }) {
    this.result.textContent = line ? `line ${line}: ${text}` : text;
    this.result.dataset.state = busy || read_only || !text ? "" : ok ? "good" : "bad";
    this.el.setAttribute("aria-busy", String(busy));
    this.number(line);
    if (!line) return;
    const before = this.area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.area.setSelectionRange(before + Math.max(column - 1, 0), before + Math.max(column - 1, 0));
  }
}

// -- the panel --------------------------------------------------------------------------------------------------------

class Panel {
  constructor(model, el) {
    this.model = model;
    this.tables = new Tables();
    this.views = {};
    this.waiting = new Map();
    this.editor = new Editor(this);
    this.build(el);
    this.take(model.get("snapshot") ?? {});
    this.send("hello");
  }

  build(el) {
    this.status = h("span", { class: "fl-status" });
    this.spoken = h("output", { class: "fl-spoken", "aria-live": "polite" }); // said once it is quiet, not at every row
    this.totals = h("span", { class: "fl-totals" });
    this.tabs = h("div", { class: "fl-tabs", role: "tablist", "aria-label": "what to show", onkeydown: (e) => this.arrow(e) });
    this.page = h("div", { class: "fl-page", role: "tabpanel", tabindex: "0", ...quiet });
    this.root = h("section", { class: "fl-panel", "aria-label": "fuselab" },
      h("header", { class: "fl-head" }, h("b", { class: "fl-mark" }, "fuselab"), this.status, this.totals, this.spoken), this.tabs, this.page);
    el.append(this.root);
    const id = Math.random().toString(36).slice(2, 8);
    this.page.id = `fl-page-${id}`;
    for (const [name, label] of TABS)
      this.tabs.append(h("button", { type: "button", role: "tab", id: `fl-tab-${name}-${id}`, "aria-controls": this.page.id, "data-tab": name,
        class: "fl-tab", ...quiet, onclick: () => this.select(name) }, label, h("span", { class: "fl-count" })));
    this.select("compilations");
    this.theme();
    this.observer = new MutationObserver(() => this.theme());
    this.observer.observe(document.body, { attributes: true, attributeFilter: ["class", "data-jp-theme-light"] });
    this.onMessage = (message) => this.receive(message);
    this.model.on("msg:custom", this.onMessage);
  }

  close() {
    this.observer.disconnect();
    this.model.off("msg:custom", this.onMessage);
    for (const timer of this.waiting.values()) clearTimeout(timer);
  }

  theme() {
    this.root.dataset.theme = isDark() ? "dark" : "light";
  }

  // messages

  send(kind, content = {}) {
    this.model.send({ kind, ...content });
    if (kind === "hello") return;
    const key = `${kind}/${content.table ?? "kernels"}/${content.key}`;
    clearTimeout(this.waiting.get(key));
    this.waiting.set(key, setTimeout(() => {
      this.note("waiting for the kernel; it answers when the cell is done");
      if (kind !== "open") this.editor.tell({ text: "queued until the cell ends", busy: true });
    }, PATIENCE));
  }

  receive(message) {
    if (message.kind === "rows") {
      if (message.fresh) {
        this.tables = new Tables();
        this.views = {};
        this.draw();
      }
      return this.take(message.rows);
    }
    const asked = message.kind === "body" ? "open" : message.action ?? message.kind;
    const key = `${asked}/${message.table ?? "kernels"}/${message.key}`;
    clearTimeout(this.waiting.get(key));
    this.waiting.delete(key);
    this.note("");
    if (message.kind === "body") this.opened(message);
    else this.editor.answer(message);
  }

  body(table, row, head) {
    if (!row.has_body) return h("div", { class: "fl-plain" }, head);
    return fold(head, (el) => {
      el.append(h("div", { class: "fl-inner", "data-body": `${table}/${row.key}` }, soft("…")));
      this.send("open", { table, key: row.key });
    });
  }

  opened({ table, key, text, table_rows: cells }) {
    for (const el of this.root.querySelectorAll(`[data-body="${table}/${key}"]`)) {
      if (cells) {
        const heads = ["source", "kind", "expected", "relied on by"].map((name) => h("th", { scope: "col" }, name));
        const rows = cells.map((row) => h("tr", {}, row.map((cell, i) => h("td", {}, i % 2 === 0 ? code(cell) : cell))));
        el.replaceChildren(h("div", { class: "fl-scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))));
      } else el.replaceChildren(h("pre", { class: "fl-code" }, text || "(empty)"));
    }
  }

  // tabs

  select(name, focus = false) {
    this.tab = name;
    for (const tab of this.tabs.children) {
      const on = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) this.page.setAttribute("aria-labelledby", tab.id);
      if (on && focus) tab.focus();
    }
    this.draw();
  }

  arrow(event) {
    const shown = [...this.tabs.children].filter((tab) => !tab.hidden).map((tab) => tab.dataset.tab);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = shown.indexOf(this.tab);
    const next = step ? shown[(at + step + shown.length) % shown.length] : { Home: shown[0], End: shown.at(-1) }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.select(next, true);
  }

  // drawing

  take(changes) {
    const stages = this.tables.stages.length;
    this.tables.take(changes);
    this.summary();
    for (const [table, rows] of Object.entries(changes)) for (const row of rows) this.update(table, row);
    if (changes.compilations?.some((row) => row.result !== "running") || stages !== this.tables.stages.length) this.rescale();
    if (Object.keys(changes).length && (this.empty || this.tab === "kernels")) this.draw();
  }

  note(text) {
    this.said = text;
    this.summary();
  }

  summary() {
    const compilations = this.tables.list("compilations");
    const running = compilations.filter((row) => row.result === "running");
    const status = running.length ? `compiling ${running.at(-1).function}…` : this.said || "";
    if (this.status.textContent !== status) this.status.textContent = status;
    const was = this.root.dataset.busy;
    this.root.dataset.busy = String(running.length > 0);
    const done = compilations.filter((row) => !["skipped", "running"].includes(row.result));
    const seconds = done.reduce((sum, row) => sum + row.seconds, 0);
    const time = seconds >= 1 ? `${seconds.toFixed(2)} s` : `${Math.round(seconds * 1000)} ms`;
    this.totals.textContent = done.length ? `${count(done.length, "compilation")} in ${time}` : "";
    if (was === "true" && !running.length) this.spoken.textContent = `${this.totals.textContent}, ${count(this.tables.list("breaks").length, "graph break")}`;
    for (const [name, , tables] of TABS) {
      const tab = this.tabs.querySelector(`[data-tab=${name}]`);
      const n = tables.reduce((sum, table) => sum + this.tables.list(table).length, 0);
      tab.querySelector(".fl-count").textContent = n || "";
      tab.dataset.attention = String(["breaks", "problems"].includes(name) && n > 0);
      if (name === "problems") tab.hidden = !n;
    }
  }

  draw() {
    // A tab's elements are made once and kept up to date, so that what is open stays open.
    const view = (this.views[this.tab] ??= this.make(this.tab));
    const body = view();
    this.empty = body === null;
    const wanted = [body ?? empty(EMPTY[this.tab])].flat();
    const there = [...this.page.childNodes];
    // What is there already stays attached: moving an element takes the focus from it.
    if (wanted.length !== there.length || wanted.some((el, i) => el !== there[i])) this.page.replaceChildren(...wanted);
  }

  make(name) {
    if (name === "kernels") return this.kernels();
    const lists = LISTS[name].map(([table, title, make, folded]) => new List(this, table, title, make, folded));
    const view = () => {
      const shown = lists.filter((list) => list.update().length);
      if (name === "compilations" && shown.length) return [this.legend(), ...shown.map((list) => list.el)];
      return shown.length ? shown.map((list) => list.el) : null;
    };
    view.lists = lists;
    return view;
  }

  update(table, row) {
    const lists = this.views[this.tab]?.lists ?? [];
    for (const view of Object.values(this.views)) for (const list of view.lists ?? []) if (list.table === table) list.put(row);
    if (lists.some((list) => list.table === table && !list.el.isConnected)) this.draw();
  }

  rescale() {
    const list = this.views.compilations?.lists[0];
    if (!list) return;
    const longest = Math.max(...this.tables.list("compilations").map((row) => row.seconds));
    for (const row of this.tables.list("compilations")) {
      const el = list.made.get(row.key)?.querySelector(".fl-track");
      if (el) el.replaceWith(bar(this.tables, row, longest));
    }
    this.page.querySelector(".fl-stages")?.replaceWith(this.legend());
  }

  legend() {
    return h("ul", { class: "fl-legend fl-stages", "aria-label": "stages" },
      this.tables.stages.map((name, i) => h("li", {}, h("i", { class: `fl-key fl-stage-${i % STAGES}` }), name)));
  }

  kernels() {
    const list = h("div", { class: "fl-kernel-list", role: "listbox", "aria-label": "kernels", onkeydown: (e) => this.moveKernel(e) });
    const body = h("div", { class: "fl-kernels" }, list, this.editor.el);
    const view = () => {
      const rows = this.tables.list("kernels");
      if (!rows.length) return null;
      if (!this.tables.rows.kernels.has(this.chosen)) this.chosen = rows[0].key;
      const focused = list.contains(document.activeElement);
      const owner = (row) => this.tables.of("compilations", row.compile_id)[0];
      let last;
      list.replaceChildren(...rows.flatMap((row) => {
        const of = owner(row);
        const head = of && of.compile_id !== last ? h("div", { class: "fl-soft fl-owner", role: "presentation" }, of.function + (of.version > 1 ? `, version ${of.version}` : "")) : null;
        last = of?.compile_id;
        const chosen = row.key === this.chosen;
        return [head, h("div", { class: "fl-kernel", role: "option", "aria-selected": String(chosen), tabindex: chosen ? "0" : "-1", ...quiet,
          "data-key": row.key, onclick: () => this.choose(row.key) },
        h("span", { class: `fl-dot fl-${row.state}`, title: row.state_said }), row.name)].filter(Boolean);
      }));
      if (focused) list.querySelector("[aria-selected=true]")?.focus();
      const row = this.tables.rows.kernels.get(this.chosen);
      if (this.editor.row !== row) this.editor.show(row);
      return body;
    };
    return view;
  }

  choose(key) {
    this.chosen = key;
    this.draw();
    this.page.querySelector(".fl-kernel[aria-selected=true]")?.focus();
  }

  moveKernel(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const keys = this.tables.list("kernels").map((row) => row.key);
    const next = keys[keys.indexOf(this.chosen) + step];
    if (next !== undefined) this.choose(next);
  }
}

class List {
  // The elements of one table, by key. A row that changed is made again; if it was open, it is opened again.
  constructor(panel, table, title, make, folded = false) {
    Object.assign(this, { panel, table, make, made: new Map() });
    this.inner = h("div", { class: "fl-list" });
    this.number = h("span", { class: "fl-soft" });
    const head = [h("span", {}, title), " ", this.number];
    if (folded) this.el = h("details", { class: "fl-part" }, h("summary", { class: "fl-part-title", ...quiet }, head), this.inner);
    else this.el = h("section", { class: "fl-part" }, title ? h("h4", { class: "fl-part-title" }, head) : null, this.inner);
    for (const row of panel.tables.list(table)) this.put(row);
  }

  put(row) {
    const el = this.make(this.panel, row);
    const old = this.made.get(row.key);
    this.made.set(row.key, el);
    if (old) old.replaceWith(el);
    else this.inner.append(el);
    if (old?.open) el.open = true;
    this.number.textContent = String(this.made.size);
  }

  update() {
    const known = this.panel.tables.rows[this.table];
    for (const [key, el] of this.made)
      if (!known?.has(key)) {
        el.remove();
        this.made.delete(key);
      }
    return { length: this.made.size };
  }
}

const LISTS = {
  compilations: [["compilations", "", compilation]],
  breaks: [["breaks", "", graphBreak]],
  guards: [
    ["recompilations", "Recompilations", recompilation],
    ["dimensions", "Sizes", dimension],
    ["failures", "Guards that failed", failure, true],
    ["guards", "Guards of each compiled version", guards],
  ],
  fusion: [
    ["groups", "Loops in each kernel", group],
    ["refusals", "Kept apart", refusal, true],
    ["fallbacks", "Left to ATen", fallback],
  ],
  problems: [["problems", "", problem]],
};
const EMPTY = {
  compilations: "Nothing is compiled yet. Run a cell with %%compile and call what it defines.",
  breaks: "No graph break.",
  guards: "No guard yet.",
  fusion: "Nothing was fused yet.",
  kernels: "No kernel yet.",
  problems: "No problem.",
};

function render({ model, el }) {
  const panel = new Panel(model, el);
  return () => panel.close();
}

export default { render };
