//! `unstall-testbed [--delayed]`: private servers to play with, until Ctrl-C; behind proxies with the
//! usual round trip if asked. Its tests kill it in every way.
//! `unstall-testbed proxied …`: a service behind a delay proxy, see [`proxied`].

use std::error::Error;

mod playground;
mod proxied;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        None => playground::serve(false),
        Some("--delayed") => playground::serve(true),
        Some("proxied") => proxied::serve(&words[1..]),
        Some(other) => {
            Err(format!("there is no option `{other}`; use --delayed or proxied").into())
        }
    }
}
