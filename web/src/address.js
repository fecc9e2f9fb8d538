// What is shown is in the address, so that a link leads to it: "#VIEW/REST?KEY=VALUE&…".
//
// Keys of a table: sort.TABLE=COLUMN (-COLUMN: the largest first), find.TABLE=WORDS, all.TABLE (columns), row.TABLE=N or COLUMN=VALUE
// (rows to be shown), only.TABLE=COLUMN=VALUE (rows to be kept). Of several values of a column one must be a row's.
let path = "";
let state = new URLSearchParams();

// {id, rest} of the address.
export function read() {
  const [before, ...after] = location.hash.slice(1).split("?");
  try {
    path = decodeURIComponent(before);
  } catch (error) {
    path = "";
  }
  state = new URLSearchParams(after.join("?"));
  const [id, ...rest] = path.split("/");
  return {id, rest: rest.join("/")};
}

// Where this is: `keys` are a list of pairs.
export const addressAt = (at, keys) => "#" + at + (keys.length > 0 ? "?" + new URLSearchParams(keys) : "");
export const get = (key) => state.get(key);

// Changes the address without leaving the view; null or "" takes a key away.
export function set(key, value, at = path) {
  path = at;
  if (value === null || value === "") state.delete(key);
  else state.set(key, value);
  try {
    history.replaceState(null, "", addressAt(path, [...state]));
  } catch (error) {
    // In a notebook's frame the page has no address of its own.
  }
}

// Whether the address names this row by the key "row" or "only".
export function isNamed(key, table, row) {
  const wanted = state.getAll(`${key}.${table.name}`);
  if (wanted.length === 0) return false;
  const columns = new Map();
  for (const one of wanted) {
    const [, column, value] = /^([^=]*)=?(.*)$/s.exec(one);
    const isIt = value === "" ? table.rows[column] === row : String(table.get(row, column)) === value;
    columns.set(column, isIt || columns.get(column));
  }
  return [...columns.values()].every(Boolean);
}
export const namedBy = (key, table) => state.getAll(`${key}.${table.name}`);
