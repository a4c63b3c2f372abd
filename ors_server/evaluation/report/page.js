"use strict";
// Sorts, filters and pages the tables of a report. Everything that is read on the page without this is complete.
(() => {
  const PAGE = 50;
  const root = document.documentElement;
  root.classList.remove("no-script");

  document.getElementById("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    document.dispatchEvent(new Event("themechange"));
  });

  const make = (name, text, style) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (style) element.className = style;
    return element;
  };

  // A table's data: {columns: [{name, kind, choices?}], rows: [[...]], anchors: prefix or null}
  class Paged {
    constructor(card) {
      this.card = card;
      const data = JSON.parse(document.getElementById(card.dataset.rows).textContent);
      this.columns = data.columns;
      this.rows = data.rows.map((cells, at) => ({ cells, at, words: this.wordsOf(cells) }));
      this.anchor = data.anchor;
      this.link = data.link;
      this.body = card.querySelector("tbody");
      this.told = card.querySelector(".told");
      this.page = 0;
      this.order = null;
      this.target = null;
      this.filter = card.querySelector("input");
      this.select = card.querySelector("select");
      this.filter.addEventListener("input", () => this.refresh());
      if (this.select) this.select.addEventListener("change", () => this.refresh());
      [this.back, this.next] = card.querySelectorAll(".tools button");
      this.back.addEventListener("click", () => this.turn(-1));
      this.next.addEventListener("click", () => this.turn(1));
      card.querySelectorAll("th").forEach((head, at) => {
        const button = make("button", head.textContent);
        button.type = "button";
        head.replaceChildren(button);
        button.addEventListener("click", () => this.sort(at));
      });
      this.refresh();
    }

    value(cells, at) {
      const column = this.columns[at];
      return column.choices && cells[at] !== null ? column.choices[cells[at]] : cells[at];
    }

    spell(cells, at) {
      const value = this.value(cells, at);
      if (value === null || value === "") return "-";
      if (this.columns[at].kind === "number") return this.number(value);
      return String(value);
    }

    number(value) {
      const digits = Math.abs(value) < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 };
      return value.toLocaleString("en-US", digits);
    }

    wordsOf(cells) {
      return cells.map((_, at) => this.value(cells, at)).filter((value) => typeof value === "string").join("\n").toLowerCase();
    }

    sort(at) {
      const down = this.order && this.order.at === at ? !this.order.down : false;
      this.order = { at, down };
      this.card.querySelectorAll("th").forEach((head, place) => {
        if (place === at) head.setAttribute("aria-sort", down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.refresh();
    }

    compare(one, two, at) {
      const [a, b] = [this.value(one.cells, at), this.value(two.cells, at)];
      if (a === null || b === null) return 0;
      if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
      return a - b;
    }

    refresh() {
      const wanted = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const status = this.select ? this.select.value : "";
      const at = this.select ? Number(this.select.dataset.column) : 0;
      let found = this.rows.filter((row) =>
        wanted.every((word) => this.has(row, word)) && (!status || this.value(row.cells, at) === status));
      if (this.order) {
        const { at: column, down } = this.order;
        const empty = (row) => this.value(row.cells, column) === null;
        found = found.slice().sort((one, two) =>
          empty(one) - empty(two) || (down ? -1 : 1) * this.compare(one, two, column) || one.at - two.at);
      }
      this.found = found;
      this.page = 0;
      this.show();
    }

    // A task's name means that task and not every one that begins like it.
    has(row, word) {
      return /.\/\d+$/.test(word) ? this.value(row.cells, 0).toLowerCase() === word : row.words.includes(word);
    }

    turn(by) {
      this.page += by;
      this.show();
    }

    show() {
      const start = this.page * PAGE;
      const shown = this.found.slice(start, start + PAGE);
      this.body.replaceChildren(...shown.map((row) => this.render(row)));
      const all = this.found.length === this.rows.length ? "" : ` (of ${this.number(this.rows.length)})`;
      this.told.textContent = shown.length
        ? `${this.number(start + 1)}-${this.number(start + shown.length)} of ${this.number(this.found.length)}${all}`
        : `none${all}`;
      this.back.disabled = this.page === 0;
      this.next.disabled = start + PAGE >= this.found.length;
    }

    render(row) {
      const line = make("tr");
      const name = this.spell(row.cells, 0);
      line.id = this.anchor + this.id(row);
      if (line.id === this.target) line.className = "target";
      this.columns.forEach((column, at) => {
        const text = this.spell(row.cells, at);
        const cell = make("td", undefined, column.kind === "plain" ? "" : column.kind);
        if (column.kind === "badge") {
          cell.className = "";
          cell.append(make("span", text, `badge ${text}`));
        } else if (column.kind === "link" && text !== "-") {
          const link = make("a", "show");
          link.href = `#${text}`;
          cell.append(link);
        } else if (at === 0 && this.link) {
          const link = make("a", name);
          link.href = `#${this.link}${name}`;
          cell.append(link);
        } else cell.textContent = text;
        line.append(cell);
      });
      return line;
    }

    id(row) {
      return row.cells.map((_, at) => this.value(row.cells, at)).filter((_, at) => this.columns[at].in_id).join("/");
    }

    // Shows the row of that id, whatever page it is on.
    reveal(id) {
      const place = this.rows.findIndex((row) => this.anchor + this.id(row) === id);
      if (place < 0) return false;
      this.filter.value = "";
      if (this.select) this.select.value = "";
      this.target = id;
      this.refresh();
      this.page = Math.floor(this.found.findIndex((row) => row.at === place) / PAGE);
      this.show();
      document.getElementById(id).scrollIntoView({ block: "center" });
      return true;
    }

    narrow(words) {
      this.filter.value = words;
      if (this.select) this.select.value = "";
      this.refresh();
      this.card.scrollIntoView();
    }
  }

  const tables = [...document.querySelectorAll("[data-rows]")].map((card) => new Paged(card));

  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const [kind, rest] = [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)];
    const attempts = tables.find((table) => table.anchor === "attempt:");
    if (kind === "attempts-of" && attempts) attempts.narrow(rest);
    else if (kind) tables.some((table) => table.reveal(id));
  };
  addEventListener("hashchange", follow);
  follow();
})();
