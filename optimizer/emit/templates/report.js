(function () {
  var time = document.querySelector("time[data-until]");
  if (time && Date.now() > new Date(time.dateTime)) {
    var box = document.querySelector(".verdict"), tag = box.querySelector(".tag"), late = document.createElement("b");
    box.className = "box verdict red";
    tag.textContent = "✖ Too old to approve or to begin: plan again";
    document.querySelector(".approve pre").hidden = true;
    late.className = "late"; late.textContent = " (this time has passed)"; time.after(late);
  }
  window.addEventListener("beforeprint", function () { document.querySelectorAll("details:not(.folded)").forEach(function (part) { part.open = true; }); });
  document.querySelectorAll("table.sorted").forEach(function (table) {
    var body = table.tBodies[0], rows = Array.from(body.rows), heads = table.tHead.rows[table.tHead.rows.length - 1].cells, texts, timer;
    if (rows.length > 20) {
      var input = document.createElement("input"), count = document.createElement("output");
      input.type = "search"; input.placeholder = "Filter " + rows.length.toLocaleString("en") + " rows";
      input.setAttribute("aria-label", "Filter: " + table.getAttribute("aria-label"));
      table.parentNode.before(input, count);
      input.oninput = function () { clearTimeout(timer); timer = setTimeout(function () {
        var words = input.value.toLowerCase().split(" "), left = 0;
        texts = texts || rows.map(function (row) { return Array.from(row.cells, function (cell) { return cell.textContent; }).join(" ").toLowerCase(); });
        rows.forEach(function (row, i) { row.hidden = !words.every(function (word) { return texts[i].includes(word); }); left += !row.hidden; });
        count.textContent = input.value ? left.toLocaleString("en") + " of " + rows.length.toLocaleString("en") + " rows" : "";
      }, 120); };
    }
    Array.from(heads).forEach(function (head, column) {
      if (!head.textContent.trim() || head.querySelector(".unseen, svg")) return;
      var button = document.createElement("button");
      button.type = "button"; button.append(...head.childNodes); head.append(button);
      button.onclick = function () {
        var up = head.getAttribute("aria-sort") === "descending" ? 1 : -1, whole = /^[\d,.]+$/;
        var texts = rows.map(function (row) { return row.cells[column].textContent.trim(); });
        var number = head.className === "num" || texts.every(function (text) { return whole.test(text.split(" ")[0]); });
        var keys = rows.map(function (row, i) { var n = parseFloat(texts[i].replace(/,/g, "")); return [number ? (isNaN(n) ? -1 : n) : texts[i], row]; });
        keys.sort(function (a, b) { return (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * up; });
        Array.from(heads).forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
        body.append(...keys.map(function (key) { return key[1]; }));
      };
    });
  });
})();
