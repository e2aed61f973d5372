// Renders the OpenAPI document: every route and the fields of its body.

/** Create an element with text or children. */
function element(name, ...children) {
  const found = document.createElement(name);
  found.append(...children);
  return found;
}

/** The type of a field, in a few words. */
function kind(schema) {
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const limits = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "maxLength"]
    .filter((name) => name in schema)
    .map((name) => `${{ minimum: "≥", exclusiveMinimum: ">", maximum: "≤", exclusiveMaximum: "<", maxLength: "length ≤" }[name]} ${schema[name]}`);
  const what = schema.type === "array" ? `list of ${kind(schema.items ?? {})}` : (schema.type ?? "anything");
  return [what, ...limits].join(" ");
}

/** A table of the fields of a body. */
function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const needed = (schema.required ?? []).includes(name);
    const rest = needed ? "required" : "default" in field ? JSON.stringify(field.default) : "";
    return element(
      "tr",
      ...[element("code", name), kind(field), rest, field.description ?? ""].map((cell) => element("td", cell)),
    );
  });
  const heading = ["field", "type", "default", "description"].map((text) => element("th", text));
  return element("table", element("thead", element("tr", ...heading)), element("tbody", ...rows));
}

/** One route. */
function route(path, method, operation, schemas) {
  const section = element("section", element("h2", `${method.toUpperCase()} ${path}`));
  section.append(element("p", operation.description ?? ""));
  const body = operation.requestBody?.content?.["application/json"]?.schema?.$ref;
  if (body) section.append(fields(schemas[body.split("/").pop()]));
  return section;
}

const place = document.getElementById("routes");
try {
  const found = await (await fetch("/openapi.json")).json();
  for (const [path, methods] of Object.entries(found.paths))
    for (const [method, operation] of Object.entries(methods))
      place.append(route(path, method, operation, found.components.schemas));
} catch (error) {
  place.textContent = `The OpenAPI document could not be read: ${error.message}`;
}
