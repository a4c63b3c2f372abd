"use strict";
// The text that an element holds in gzip and base64.
async function unpacked(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// Sorts, filters and pages the tables of a report. Everything that is read on the page without this is complete.
(async () => {
  const PAGE = 50;
  const root = document.documentElement;
  root.classList.remove("no-script");

  document.getElementById("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    document.dispatchEvent(new Event("themechange"));
  });

  const count = (number) => number.toLocaleString("en-US");

  class Paged {
    constructor(card, more) {
      this.card = card;
      this.body = card.querySelector("tbody");
      const rest = document.createElement("template");
      rest.innerHTML = `<table>${more}</table>`; // escaped by the template that wrote the first rows too
      this.rows = [...this.body.rows, ...rest.content.querySelectorAll("tr")];
      this.told = card.querySelector(".told");
      this.heads = [...card.querySelectorAll("th")];
      this.order = null;
      this.filter = card.querySelector("input");
      this.select = card.querySelector("select");
      this.filter.addEventListener("input", () => this.refresh());
      this.select?.addEventListener("change", () => this.refresh());
      [this.back, this.next] = card.querySelectorAll(".tools button");
      this.back.addEventListener("click", () => this.show(this.page - 1));
      this.next.addEventListener("click", () => this.show(this.page + 1));
      this.heads.forEach((head, at) => {
        const button = document.createElement("button");
        button.textContent = head.textContent;
        button.type = "button";
        head.replaceChildren(button);
        button.addEventListener("click", () => this.sort(at));
      });
      this.refresh();
    }

    // A cell's text, or its number; `null` for "-", which is after every value.
    value(row, at) {
      const text = row.cells[at].textContent;
      if (text === "-") return null;
      return this.heads[at].className === "number" ? Number(text.replaceAll(",", "")) : text;
    }

    sort(at) {
      const down = this.order?.at === at && !this.order.down;
      this.order = { at, down };
      for (const head of this.heads) head.removeAttribute("aria-sort");
      this.heads[at].setAttribute("aria-sort", down ? "descending" : "ascending");
      this.refresh();
    }

    compare(one, two) {
      const { at, down } = this.order;
      const [a, b] = [this.value(one, at), this.value(two, at)];
      if (a === null || b === null) return (a === null) - (b === null);
      return (down ? -1 : 1) * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    }

    refresh() {
      const wanted = this.filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = this.select?.value;
      this.found = this.rows.filter((row) => wanted.every((word) => this.has(row, word))
        && (!chosen || this.value(row, Number(this.select.dataset.column)) === chosen));
      if (this.order) this.found.sort((one, two) => this.compare(one, two));
      this.show(0);
    }

    // A task's name means that task and not every one that begins like it.
    has(row, word) {
      if (/.\/\d+$/.test(word)) return row.cells[0].textContent.toLowerCase() === word;
      row.words ??= [...row.querySelectorAll("td:not(.number)")].map((cell) => cell.textContent).join("\n").toLowerCase();
      return row.words.includes(word);
    }

    show(page) {
      this.page = page;
      const start = page * PAGE;
      const shown = this.found.slice(start, start + PAGE);
      this.body.replaceChildren(...shown);
      const all = this.found.length === this.rows.length ? "" : ` (of ${count(this.rows.length)})`;
      this.told.textContent = shown.length
        ? `${count(start + 1)}-${count(start + shown.length)} of ${count(this.found.length)}${all}`
        : `none${all}`;
      this.back.disabled = page === 0;
      this.next.disabled = start + PAGE >= this.found.length;
    }

    // Shows the row of that id, whatever page it is on.
    reveal(id) {
      const target = this.rows.find((row) => row.id === id);
      if (!target) return false;
      this.narrow("");
      for (const row of this.rows) row.classList.toggle("target", row === target);
      this.show(Math.floor(this.found.indexOf(target) / PAGE));
      target.scrollIntoView({ block: "center" });
      return true;
    }

    narrow(words) {
      this.filter.value = words;
      if (this.select) this.select.value = "";
      this.refresh();
      this.card.scrollIntoView();
    }
  }

  const tables = await Promise.all([...document.querySelectorAll(".card.table")].map(async (card) => {
    const more = card.querySelector("script");
    return new Paged(card, more ? await unpacked(more) : "");
  }));

  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const [kind, rest] = [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)];
    const attempts = tables.find((table) => table.card.id === "attempts");
    if (kind === "attempts-of" && attempts) attempts.narrow(rest);
    else if (kind) tables.some((table) => table.reveal(id));
  };
  addEventListener("hashchange", follow);
  follow();
})();
