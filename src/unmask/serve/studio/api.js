/** Calls of the server: JSON, server-sent events, the key, and errors as one line. */

const KEY = "unmask-key";

/** What went wrong, as one line for the reader. */
export class Refused extends Error {}

let askForKey = async () => null;

/** How the page asks for the key: a function that gets whether one was wrong, and gives one or null. */
export function onKey(ask) {
  askForKey = ask;
}

/** GET. */
export const get = (path) => json(path, {});

/** POST of a document; `signal` gives it up. */
export const post = (path, body, signal) => json(path, { method: "POST", body: JSON.stringify(body), signal });

async function json(path, options) {
  return (await answer(path, options)).json();
}

/** POST whose answer is a stream of events [name, document]; one named error is thrown. */
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
    throw new Refused("the server went away before the end");
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
    // not one of our documents: the status is all there is to say
  }
  const after = response.headers.get("Retry-After");
  return after !== null && !said.includes("try again") ? `${said}: try again in ${after} s` : said;
}
