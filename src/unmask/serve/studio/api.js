/** Requests to the server: JSON, server-sent events, the API key and one-line errors. */

const KEY = "unmask-key";

/** An error with a one-line message for the user. */
export class Refused extends Error {}

let askForKey = async () => null;

/** Set how the page asks for the key: a function of whether the last key was wrong that returns a key or null. */
export function onKey(ask) {
  askForKey = ask;
}

/** GET. */
export const get = (path) => json(path, {});

/** POST a document; `signal` cancels the request. */
export const post = (path, body, signal) => json(path, { method: "POST", body: JSON.stringify(body), signal });

async function json(path, options) {
  return (await answer(path, options)).json();
}

/** POST a document and yield the server-sent events [name, document]; an event named error is thrown. */
export async function* events(path, body, signal) {
  const response = await answer(path, { method: "POST", body: JSON.stringify(body), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await read(reader, signal);
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const [name, document] = parsed(part);
      if (name === "error") throw new Refused(document.error.message);
      yield [name, document];
    }
  }
}

async function read(reader, signal) {
  try {
    return await reader.read();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused("the connection to the server was lost before the end");
  }
}

function parsed(part) {
  const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return [fields.event, JSON.parse(fields.data)];
}

async function answer(path, options) {
  let wrong = false;
  for (;;) {
    const response = await asked(path, options);
    if (response.ok) return response;
    if (response.status !== 401) throw new Refused(await line(response));
    const key = await askForKey(wrong);
    if (key === null) throw new Refused(await line(response));
    sessionStorage.setItem(KEY, key);
    wrong = true;
  }
}

async function asked(path, options) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem(KEY);
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused("the server does not answer: is it still running?");
  }
}

async function line(response) {
  let said = `the server answered ${response.status}`;
  try {
    said = (await response.json()).error.message;
  } catch {
    // not one of our error documents: only the status is known
  }
  const after = response.headers.get("Retry-After");
  return after !== null && !said.includes("try again") ? `${said}: try again in ${after} s` : said;
}
