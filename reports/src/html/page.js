// What a reader gains beside the page itself: a filter of cells, marks that light up with their rows, and an
// address that keeps what was chosen, as #place&name=value. Nothing on the page needs it.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const controls = all("input[name]");
  const isFirst = (input) => (input.type === "radio" ? input.checked === input.defaultChecked : !input.value);

  const chosen = () =>
    controls
      .filter((input) => !isFirst(input) && (input.type !== "radio" || input.checked))
      .map((input) => encodeURIComponent(input.name) + "=" + encodeURIComponent(input.value));

  const place = () => location.hash.slice(1).split("&")[0];

  const keep = () => {
    const parts = [place(), ...chosen()].join("&");
    const hash = parts && "#" + parts;
    if (hash === location.hash) return;
    try {
      history.replaceState(null, "", hash || location.pathname + location.search);
    } catch {
      // Some frames and viewers forbid it: the page works, its address doesn't tell.
    }
  };

  const words = new Map();
  const textOf = (row) => {
    if (!words.has(row)) words.set(row, (row.cells[0].textContent + " " + row.cells[1].textContent).toLowerCase());
    return words.get(row);
  };

  const filters = all(".filter").map((box) => {
    const table = document.getElementById(box.dataset.rows);
    const rows = all("tr[data-o]", table);
    const search = box.querySelector("input[type=search]");
    const output = box.querySelector("output");
    const apply = () => {
      const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const outcome = box.querySelector("input[type=radio]:checked").value;
      let shown = 0;
      for (const row of rows) {
        const fits = (!outcome || row.dataset.o === outcome) && wanted.every((word) => textOf(row).includes(word));
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      for (const body of table.tBodies) body.hidden = !body.querySelector("tr[data-o]:not([hidden])");
      output.textContent = shown + " of " + rows.length + " cells";
      box.classList.toggle("active", shown < rows.length);
    };
    const clear = () => {
      search.value = "";
      box.querySelector("input[type=radio][value='']").checked = true;
      apply();
    };
    box.hidden = false;
    box.addEventListener("input", () => {
      apply();
      keep();
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        clear();
        keep();
      }
    });
    return { table, apply, clear };
  });

  const choose = () => {
    for (const pair of location.hash.slice(1).split("&").slice(1)) {
      const [name, value] = pair.split("=").map((part) => {
        try {
          return decodeURIComponent(part);
        } catch {
          return "";
        }
      });
      for (const input of controls.filter((input) => input.name === name)) {
        if (input.type !== "radio") input.value = value;
        else if (input.value === value) input.checked = true;
      }
    }
    for (const filter of filters) filter.apply();
  };

  const show = () => {
    for (const marked of all(".target")) marked.classList.remove("target");
    const target = document.getElementById(place());
    if (!target) return;
    for (const filter of filters) if (target.hidden && filter.table.contains(target)) filter.clear();
    const fold = target.closest("details");
    if (fold) fold.open = true;
    target.classList.add("target");
    if (chosen().length) target.scrollIntoView();
  };

  const follow = () => {
    choose();
    show();
    keep();
  };
  addEventListener("hashchange", follow);
  document.addEventListener("change", (event) => {
    if (event.target.matches("input[name]")) keep();
  });

  const lit = [];
  const dim = () => {
    for (const element of lit.splice(0)) element.classList.remove("lit");
    for (const line of all(".readout")) line.textContent = "";
  };
  const told = (row) => {
    const heads = row.closest("table").tHead.rows[0].cells;
    const parts = [...row.cells].map((cell, index) => [heads[index].textContent.trim(), cell.innerText.trim() || cell.textContent.trim()]);
    return parts.filter(([, value]) => value && value !== "–").map((part) => part.join("\u00a0")).join(" · ");
  };
  const light = (event) => {
    dim();
    const mark = event.target.closest && event.target.closest("[data-k]");
    const group = mark && mark.closest("[data-link]");
    if (!group) return;
    const linked = "[data-link='" + group.dataset.link + "'] [data-k='" + mark.dataset.k + "']";
    for (const element of all(linked)) {
      element.classList.add("lit");
      lit.push(element);
    }
    const row = lit.find((element) => element.matches("tr"));
    const figure = mark.closest("figure");
    if (!row || !figure || mark === row) return;
    let line = figure.querySelector(".readout");
    if (!line) {
      line = document.createElement("p");
      line.className = "readout";
      line.setAttribute("aria-hidden", "true");
      figure.append(line);
    }
    line.textContent = told(row);
  };
  document.addEventListener("pointerover", light);
  document.addEventListener("focusin", light);

  follow();
})();
