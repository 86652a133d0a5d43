(() => {
  const all = query => document.querySelectorAll(query), make = name => document.createElement(name);
  const shown = number => number.toLocaleString("en");
  const time = document.querySelector("time[data-until]");
  if (time && Date.now() > new Date(time.dateTime)) {
    const box = document.querySelector(".verdict");
    box.className = "box verdict red";
    box.querySelector(".tag").textContent = "✖ Too old to approve or to begin: plan again";
    all(".approve pre, .then").forEach(part => { part.hidden = true; });
    time.insertAdjacentHTML("afterend", '<b class="late"> (this time has passed)</b>');
  }
  if (navigator.clipboard) all(".approve pre").forEach(command => {
    const button = make("button"), text = command.textContent;
    button.textContent = "Copy";
    button.onclick = () => navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; });
    command.append(button);
  });
  addEventListener("beforeprint", () => all("details:not(.folded)").forEach(part => { part.open = true; }));
  all("table.sorted").forEach(table => {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...[...table.tHead.rows].pop().cells];
    let texts, timer;
    if (rows.length > 20) {
      const input = make("input"), count = make("output"), total = shown(rows.length) + " rows";
      input.type = "search"; input.placeholder = "Filter " + total;
      input.setAttribute("aria-label", "Filter: " + table.getAttribute("aria-label"));
      table.parentNode.before(input, count);
      input.oninput = () => { clearTimeout(timer); timer = setTimeout(() => {
        const words = input.value.toLowerCase().split(" ");
        let left = 0;
        texts = texts || rows.map(row => [...row.cells].map(cell => cell.textContent).join(" ").toLowerCase());
        rows.forEach((row, i) => { row.hidden = !words.every(word => texts[i].includes(word)); left += !row.hidden; });
        count.textContent = input.value ? shown(left) + " of " + total : "";
      }, 120); };
    }
    heads.forEach((head, column) => {
      if (!head.textContent.trim() || head.querySelector(".unseen, svg")) return;
      const button = make("button");
      button.append(...head.childNodes); head.append(button);
      button.onclick = () => {
        const up = head.ariaSort === "descending" ? 1 : -1;
        const texts = rows.map(row => row.cells[column].textContent.trim());
        const number = head.className === "num" || texts.every(text => /^[\d,.]+$/.test(text.split(" ")[0]));
        const value = text => !number ? text : /\d/.test(text) ? parseFloat(text.replace(/,/g, "")) : -1;
        const keys = rows.map((row, i) => [value(texts[i]), row]);
        keys.sort(([a], [b]) => (a < b ? -1 : +(a > b)) * up);
        heads.forEach(other => { other.ariaSort = null; });
        head.ariaSort = up > 0 ? "ascending" : "descending";
        body.append(...keys.map(key => key[1]));
      };
    });
  });
})();
