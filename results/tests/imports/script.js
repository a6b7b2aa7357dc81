import http from "k6/http";

export const options = { vus: 2, iterations: 40 };

export default function () {
  http.get(`${__ENV.TARGET}/it`, { tags: { name: "it" } });
  http.get(`${__ENV.TARGET}/missing`, { tags: { name: "missing" } });
}
