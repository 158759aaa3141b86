// Something to begin with for a schema of the API's description: its example, or the plainest value.

const PLAIN = { string: "", integer: 0, number: 0, boolean: false, null: null };
const DEPTH = 6;

function resolve(api, schema) {
  const name = schema?.$ref?.split("/").pop();
  return name ? api.components.schemas[name] : (schema ?? {});
}

export function example(api, schema, name = "", depth = 0) {
  const found = resolve(api, schema);
  const given = found.example ?? found.examples?.[0] ?? found.default ?? found.enum?.[0];
  if (given !== undefined) return given;
  const [kind] = [found.type].flat().filter((type) => type && type !== "null");
  const one = (found.oneOf ?? found.anyOf ?? found.allOf ?? []).find((option) => option.type !== "null");
  if (one) return example(api, one, name, depth + 1);
  if (depth > DEPTH) return null;
  if (kind === "object" || found.properties) {
    const fields = Object.entries(found.properties ?? {});
    return Object.fromEntries(fields.map(([field, value]) => [field, example(api, value, field, depth + 1)]));
  }
  if (kind === "array") return [example(api, found.items, name, depth + 1)];
  if (kind === "integer" || kind === "number") return found.minimum ?? 1;
  return PLAIN[kind] ?? "";
}
