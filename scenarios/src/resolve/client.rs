//! `[client]` and `[hosts]`: how every user's client behaves, and which services beside the
//! target it calls.

use std::collections::BTreeMap;

use super::values;
use crate::document::{Document, Place};
use crate::error::ScenarioError;
use crate::plan::{ClientBehaviour, HttpVersion, Part, Reuse, Template, Var};
use crate::raw;
use crate::template::is_variable_name;

/// More hops than this are a loop.
const REDIRECTS_MAX: u32 = 100;

pub(crate) fn resolve(
    document: &Document<'_>,
    raw: &raw::Client,
) -> Result<ClientBehaviour, ScenarioError> {
    let redirects_max = raw.redirects_max.unwrap_or(0);
    if redirects_max > REDIRECTS_MAX {
        return Err(document.error(
            &Place::Root.key("client").key("redirects_max"),
            format!("{redirects_max} redirects, expected 0 to {REDIRECTS_MAX}"),
            "write how many a browser would follow, as `redirects_max = 20`",
        ));
    }
    Ok(ClientBehaviour {
        http: match raw.http {
            Some(raw::Http::One) => HttpVersion::Http1,
            Some(raw::Http::Two) => HttpVersion::Http2,
            Some(raw::Http::Auto) | None => HttpVersion::Auto,
        },
        reuse: match raw.reuse {
            Some(raw::Reuse::Iteration) => Reuse::Iteration,
            Some(raw::Reuse::Never) => Reuse::Never,
            Some(raw::Reuse::User) | None => Reuse::User,
        },
        redirects_max,
        cookies: raw.cookies.unwrap_or(false),
        compression: raw.compression.unwrap_or(false),
    })
}

/// The base URLs with their variables filled in, which must be known before the run.
pub(crate) fn hosts(
    document: &Document<'_>,
    raw: &BTreeMap<String, String>,
    vars: &BTreeMap<String, Var>,
) -> Result<BTreeMap<String, String>, ScenarioError> {
    let section = Place::Root.key("hosts");
    let mut hosts = BTreeMap::new();
    for (name, written) in raw {
        if !is_variable_name(name) {
            return Err(document.error(
                &section.name(name),
                format!("`{name}` can't be a host's name"),
                "use letters, digits, `_` and `-`, and start with a letter or `_`, as `identity`",
            ));
        }
        let place = section.key(name);
        let template = values::template(document, &place, written)?;
        let url = known_before_the_run(document, &place, &template, vars)?;
        check_url(document, &place, &url)?;
        hosts.insert(name.clone(), url.trim_end_matches('/').to_owned());
    }
    Ok(hosts)
}

/// A text whose variables are filled in: each has one value for the whole run.
pub(super) fn known_before_the_run(
    document: &Document<'_>,
    place: &Place<'_>,
    template: &Template,
    vars: &BTreeMap<String, Var>,
) -> Result<String, ScenarioError> {
    let mut filled = String::new();
    for part in &template.parts {
        match part {
            Part::Literal(text) => filled.push_str(text),
            Part::Variable(name) => match vars.get(name) {
                Some(Var::Value(value)) => match &value.value {
                    serde_json::Value::String(text) => filled.push_str(text),
                    other => filled.push_str(&other.to_string()),
                },
                _ => {
                    return Err(document.error(
                        place,
                        format!("the variable `{name}` isn't known before the run"),
                        format!(
                            "give `{name}` one value for the whole run in `[vars]`: a literal, \
                             the environment, or `--var {name}=…`"
                        ),
                    ));
                }
            },
        }
    }
    Ok(filled)
}

/// What stands there is never shown: a variable may have brought a secret into it.
fn check_url(document: &Document<'_>, place: &Place<'_>, url: &str) -> Result<(), ScenarioError> {
    let schemes = ["http://", "https://", "unix:"];
    let Some(scheme) = schemes.iter().find(|scheme| url.starts_with(**scheme)) else {
        return Err(document.error(
            place,
            "the host's URL begins with none of http://, https:// and unix:",
            "write a base URL, as `http://127.0.0.1:9001`",
        ));
    };
    let rest = &url[scheme.len()..];
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let (what, fix) = if rest.is_empty() || (*scheme != "unix:" && authority.is_empty()) {
        (
            "the host's URL names no host",
            "write a base URL, as `http://127.0.0.1:9001`",
        )
    } else if *scheme != "unix:" && authority.contains('@') {
        (
            "the host's URL has a user name or password",
            "take them out, and send `headers = { authorization = \"Basic ${credentials}\" }` with \
             a secret variable",
        )
    } else if rest.contains(['?', '#']) {
        (
            "the host's URL has a `?` or `#`",
            "write the base URL alone; parameters belong into `query`",
        )
    } else if rest.chars().any(|c| c.is_control() || c.is_whitespace()) {
        (
            "the host's URL has a space or control character",
            "take it out of the URL, or of the variable it comes from",
        )
    } else {
        return Ok(());
    };
    Err(document.error(place, what, fix))
}
