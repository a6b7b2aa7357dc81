//! A version of a service as the command line names it: a URL, or the command that starts it.

use std::collections::BTreeMap;

use anyhow::Context;
use unstall_bench_harness::command_line::CommandLine;
use unstall_bench_harness::engine::Target;
use unstall_bench_harness::process_group::{ServiceCommand, find_program};
use unstall_results::record::Arm;

use crate::before_block::BeforeBlock;
use crate::opening;
use crate::session::{Prepared, Stage, Turn};

/// Where a service is to be had.
#[derive(Debug, Clone)]
pub(crate) enum Version {
    /// Runs already.
    Url { given: String, target: Target },
    /// Is started.
    Command(String),
}

impl Version {
    /// A URL if it has a scheme, else a command. `options` are those that take it, for the
    /// message.
    pub(crate) fn parse(given: &str, options: &str) -> anyhow::Result<Self> {
        let has_scheme = given.split_whitespace().count() == 1 && given.contains("://");
        if has_scheme {
            Ok(Self::Url {
                given: given.to_owned(),
                target: Target::parse(given)?,
            })
        } else if given.trim().is_empty() {
            anyhow::bail!("{options} a URL, or the command that starts the version")
        } else {
            // A mistake in it must not come up after something else was measured.
            find_program(&CommandLine::parse(given)?.program)?;
            Ok(Self::Command(given.to_owned()))
        }
    }

    /// As a record names it.
    pub(crate) fn arm(&self) -> Arm {
        let (command, url) = match self {
            Self::Url { given, .. } => (None, Some(given.clone())),
            Self::Command(line) => (Some(line.clone()), None),
        };
        Arm {
            command,
            url,
            git: None,
        }
    }

    /// Whether it runs on this machine, as far as its address tells.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Url { target, .. } => opening::is_local(target),
            Self::Command(_) => true,
        }
    }
}

/// Versions by their arm, and the user's own way to restore state before a block.
#[derive(Debug)]
pub(crate) struct Versions<'a> {
    pub(crate) by_arm: BTreeMap<&'static str, Version>,
    /// A command's service is ready when this path answers.
    pub(crate) ready: String,
    pub(crate) before_block: Option<BeforeBlock<'a>>,
}

impl Stage for Versions<'_> {
    fn prepare(&mut self, turn: &Turn) -> anyhow::Result<Prepared> {
        if let Some(command) = &self.before_block {
            command.run(turn)?;
        }
        let version = self.by_arm.get(turn.arm).with_context(|| {
            format!(
                "no version is called `{}`; this is a fault of unstall",
                turn.arm
            )
        })?;
        Ok(match version {
            Version::Url { target, .. } => Prepared::Running(target.clone()),
            Version::Command(line) => {
                let mut command = ServiceCommand::new(line);
                command.ready_path.clone_from(&self.ready);
                Prepared::ToStart(command)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_scheme_is_a_url_and_the_rest_a_command() {
        let parse = |given| Version::parse(given, "--target takes");
        assert!(matches!(
            parse("http://127.0.0.1:1"),
            Ok(Version::Url { .. })
        ));
        assert!(matches!(
            parse("sh -c 'x --url http://x/'"),
            Ok(Version::Command(_))
        ));
        assert!(matches!(parse("A=b /bin/sh"), Ok(Version::Command(_))));
        for wrong in [
            "no-such-program --port {port}",
            "sh -c 'open quote",
            "https://127.0.0.1",
            "ftp://127.0.0.1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let nothing = parse(" ").expect_err("nothing");
        assert!(nothing.to_string().starts_with("--target takes a URL"));
    }
}
