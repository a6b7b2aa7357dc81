//! Headers that belong to a connection or to a browser's surroundings, and not to a scenario.

/// Set by the engine, or true of one connection only.
const OF_THE_CONNECTION: [&str; 13] = [
    "host",
    // The host of HTTP/2, as browsers copy it.
    "authority",
    "content-length",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "proxy-connection",
    "proxy-authorization",
    "http2-settings",
];

/// What a browser adds of itself: left out, so that a scenario shows what matters.
const OF_THE_BROWSER: [&str; 12] = [
    "dnt",
    "priority",
    "upgrade-insecure-requests",
    "cache-control",
    "pragma",
    "referer",
    "user-agent",
    "accept-language",
    "if-none-match",
    "if-modified-since",
    "x-client-data",
    "save-data",
];

/// Whether the engine sets it, or only one connection has it. Those of HTTP/2 begin with `:`.
pub(super) fn is_of_the_connection(name: &str) -> bool {
    name.starts_with(':') || OF_THE_CONNECTION.contains(&name)
}

/// Whether a browser adds it by itself.
pub(super) fn is_of_the_browser(name: &str) -> bool {
    name.starts_with("sec-") || OF_THE_BROWSER.contains(&name)
}
