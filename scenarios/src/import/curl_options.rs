//! curl's options by name: which take a value, and what they mean for a scenario.

/// What an option means for a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Method,
    Header,
    Data,
    DataRaw,
    DataBinary,
    DataUrlencode,
    Json,
    Form,
    FormString,
    User,
    Bearer,
    Cookie,
    CookieJar,
    Agent,
    Referer,
    Range,
    Url,
    UrlQuery,
    Upload,
    MaxTime,
    MaxRedirects,
    Get,
    Head,
    Location,
    Compressed,
    NoBuffer,
    Http1,
    Http2,
    Next,
    /// About what curl prints or writes: nothing to keep.
    Output,
    /// Kept by this option of the command line.
    CommandLine(&'static str),
    /// Lost, and said so.
    Lost(&'static str),
    /// Can't be imported.
    Refused(&'static str),
}

use Meaning as M;

/// Long name, short name, whether it takes a value, what it means.
type Known = (&'static str, Option<char>, bool, Meaning);

const KNOWN: &[Known] = &[
    ("request", Some('X'), true, M::Method),
    ("header", Some('H'), true, M::Header),
    ("data", Some('d'), true, M::Data),
    ("data-ascii", None, true, M::Data),
    ("data-raw", None, true, M::DataRaw),
    ("data-binary", None, true, M::DataBinary),
    ("data-urlencode", None, true, M::DataUrlencode),
    ("json", None, true, M::Json),
    ("form", Some('F'), true, M::Form),
    ("form-string", None, true, M::FormString),
    ("user", Some('u'), true, M::User),
    ("oauth2-bearer", None, true, M::Bearer),
    ("cookie", Some('b'), true, M::Cookie),
    ("cookie-jar", Some('c'), true, M::CookieJar),
    ("user-agent", Some('A'), true, M::Agent),
    ("referer", Some('e'), true, M::Referer),
    ("range", Some('r'), true, M::Range),
    ("url", None, true, M::Url),
    ("url-query", None, true, M::UrlQuery),
    ("upload-file", Some('T'), true, M::Upload),
    ("max-time", Some('m'), true, M::MaxTime),
    ("max-redirs", None, true, M::MaxRedirects),
    ("get", Some('G'), false, M::Get),
    ("head", Some('I'), false, M::Head),
    ("location", Some('L'), false, M::Location),
    ("location-trusted", None, false, M::Location),
    ("compressed", None, false, M::Compressed),
    ("no-buffer", Some('N'), false, M::NoBuffer),
    ("http1.1", None, false, M::Http1),
    ("http2", None, false, M::Output),
    ("http2-prior-knowledge", None, false, M::Http2),
    ("next", Some(':'), false, M::Next),
    // About output.
    ("silent", Some('s'), false, M::Output),
    ("show-error", Some('S'), false, M::Output),
    ("verbose", Some('v'), false, M::Output),
    ("include", Some('i'), false, M::Output),
    ("show-headers", None, false, M::Output),
    ("fail", Some('f'), false, M::Output),
    ("fail-with-body", None, false, M::Output),
    ("fail-early", None, false, M::Output),
    ("progress-bar", Some('#'), false, M::Output),
    ("no-progress-meter", None, false, M::Output),
    ("output", Some('o'), true, M::Output),
    ("output-dir", None, true, M::Output),
    ("remote-name", Some('O'), false, M::Output),
    ("remote-header-name", Some('J'), false, M::Output),
    ("create-dirs", None, false, M::Output),
    ("write-out", Some('w'), true, M::Output),
    ("dump-header", Some('D'), true, M::Output),
    ("trace", None, true, M::Output),
    ("trace-ascii", None, true, M::Output),
    ("stderr", None, true, M::Output),
    ("disable", Some('q'), false, M::Output),
    ("globoff", Some('g'), false, M::Output),
    ("path-as-is", None, false, M::Output),
    ("tcp-nodelay", None, false, M::Output),
    ("no-keepalive", None, false, M::Output),
    ("parallel", Some('Z'), false, M::Output),
    ("tlsv1.2", None, false, M::Output),
    ("tlsv1.3", None, false, M::Output),
    ("ipv4", Some('4'), false, M::Output),
    ("ipv6", Some('6'), false, M::Output),
    ("connect-timeout", None, true, M::Output),
    // Kept elsewhere.
    ("insecure", Some('k'), false, M::CommandLine("--insecure")),
    ("cacert", None, true, M::CommandLine("--ca")),
    (
        "cert",
        Some('E'),
        true,
        M::CommandLine("--client-certificate"),
    ),
    ("key", None, true, M::CommandLine("--client-key")),
    ("proxy", Some('x'), true, M::CommandLine("--proxy")),
    ("unix-socket", None, true, M::CommandLine("--target unix:")),
    // Lost.
    ("retry", None, true, M::Lost("repeating would hide errors")),
    (
        "retry-delay",
        None,
        true,
        M::Lost("repeating would hide errors"),
    ),
    (
        "retry-max-time",
        None,
        true,
        M::Lost("repeating would hide errors"),
    ),
    (
        "retry-all-errors",
        None,
        false,
        M::Lost("repeating would hide errors"),
    ),
    (
        "retry-connrefused",
        None,
        false,
        M::Lost("repeating would hide errors"),
    ),
    (
        "resolve",
        None,
        true,
        M::Lost("name the address in --target"),
    ),
    (
        "connect-to",
        None,
        true,
        M::Lost("name the address in --target"),
    ),
    (
        "limit-rate",
        None,
        true,
        M::Lost("answers are read as fast as they come"),
    ),
    (
        "interface",
        None,
        true,
        M::Lost("the kernel chooses the way"),
    ),
    (
        "noproxy",
        None,
        true,
        M::Lost("a proxy is used only where --proxy names one"),
    ),
    (
        "proxy-user",
        Some('U'),
        true,
        M::Lost("put it into the URL of --proxy"),
    ),
    ("capath", None, true, M::Lost("name one file with --ca")),
    (
        "netrc",
        Some('n'),
        false,
        M::Lost("set the authorization header instead"),
    ),
    (
        "digest",
        None,
        false,
        M::Lost("only fixed authorization headers are sent"),
    ),
    (
        "ntlm",
        None,
        false,
        M::Lost("only fixed authorization headers are sent"),
    ),
    (
        "negotiate",
        None,
        false,
        M::Lost("only fixed authorization headers are sent"),
    ),
    (
        "anyauth",
        None,
        false,
        M::Lost("only fixed authorization headers are sent"),
    ),
    ("basic", None, false, M::Output),
    (
        "post301",
        None,
        false,
        M::Lost("redirects are followed as the standard says"),
    ),
    (
        "post302",
        None,
        false,
        M::Lost("redirects are followed as the standard says"),
    ),
    (
        "post303",
        None,
        false,
        M::Lost("redirects are followed as the standard says"),
    ),
    (
        "http1.0",
        Some('0'),
        false,
        M::Lost("HTTP/1.1 is spoken instead"),
    ),
    ("http3", None, false, M::Lost("HTTP/3 isn't spoken")),
    ("http3-only", None, false, M::Lost("HTTP/3 isn't spoken")),
    ("expect100-timeout", None, true, M::Output),
    ("ssl-no-revoke", None, false, M::Output),
    (
        "ciphers",
        None,
        true,
        M::Lost("the TLS library chooses its ciphers"),
    ),
    (
        "tls-max",
        None,
        true,
        M::Lost("the TLS library chooses its version"),
    ),
    (
        "cert-type",
        None,
        true,
        M::Lost("certificates are read as PEM"),
    ),
    ("key-type", None, true, M::Lost("keys are read as PEM")),
    ("pass", None, true, M::Lost("keys must not be encrypted")),
    (
        "config",
        Some('K'),
        true,
        M::Refused("write the options of that file into the command"),
    ),
    (
        "request-target",
        None,
        true,
        M::Refused("write the path into the URL"),
    ),
    (
        "variable",
        None,
        true,
        M::Refused("use variables of the shell, as `$NAME`"),
    ),
];

/// An option by its long name.
pub(super) fn by_name(name: &str) -> Option<(bool, Meaning)> {
    let found = KNOWN.iter().find(|(long, ..)| *long == name)?;
    Some((found.2, found.3))
}

/// An option by its letter: its long name, whether it takes a value, what it means.
pub(super) fn by_letter(letter: char) -> Option<(&'static str, bool, Meaning)> {
    let found = KNOWN.iter().find(|(_, short, ..)| *short == Some(letter))?;
    Some((found.0, found.2, found.3))
}

/// The long names, for suggestions.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    KNOWN.iter().map(|(long, ..)| *long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_two_things() {
        let mut names: Vec<&str> = names().collect();
        let mut letters: Vec<char> = KNOWN.iter().filter_map(|known| known.1).collect();
        let counts = (names.len(), letters.len());
        names.sort_unstable();
        names.dedup();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!((names.len(), letters.len()), counts);
    }
}
