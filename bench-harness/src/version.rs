//! A version of a service as the command line names it: a URL, or the command that starts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use unstall_bench_harness::command_line::CommandLine;
use unstall_bench_harness::engine::{Access, Stop, Target};
use unstall_bench_harness::process_group::{ServiceCommand, find_program};
use unstall_results::record::{Arm, ArmAccess};
use unstall_scenarios::plan::Plan;

use crate::arguments::BlockStartArguments;
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
    /// Tries the service, if it is to run already, and the other ones that the scenarios ask.
    ///
    /// # Errors
    /// When one of them can't be reached.
    pub(crate) fn reachable(&self, plans: &[Arc<Plan>]) -> anyhow::Result<()> {
        match self {
            Self::Url { target, .. } => opening::reachable(target, plans),
            Self::Command(_) => opening::hosts_reachable(plans),
        }
    }

    /// A URL if it has a scheme, else a command. `options` are those that take it, for the
    /// message.
    pub(crate) fn parse(given: &str, options: &str, access: &Access) -> anyhow::Result<Self> {
        let is_scheme = given.contains("://") || given.trim_start().starts_with("unix:");
        let has_scheme = given.split_whitespace().count() == 1 && is_scheme;
        if has_scheme {
            Ok(Self::Url {
                given: given.to_owned(),
                target: Target::reached_by(given, access)?,
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
        match self {
            Self::Url { given, target } => arm_of(given, target),
            Self::Command(line) => Arm {
                command: Some(line.clone()),
                url: None,
                git: None,
                access: None,
                imported: None,
            },
        }
    }

    /// Where it runs already.
    pub(crate) fn target(&self) -> Option<&Target> {
        match self {
            Self::Url { target, .. } => Some(target),
            Self::Command(_) => None,
        }
    }

    /// Whether it runs on this machine, as far as its address tells.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Url { target, .. } => target.is_here(),
            Self::Command(_) => true,
        }
    }
}

/// A service that runs already, as a record names it.
pub(crate) fn arm_of(given: &str, target: &Target) -> Arm {
    let access = target.access();
    let access = ArmAccess {
        insecure: access.is_insecure() && target.is_tls(),
        full_handshakes: access.has_full_handshakes() && target.is_tls(),
        proxy: access.proxy_shown(),
    };
    Arm {
        command: None,
        url: Some(given.trim().to_owned()),
        git: None,
        access: (access != ArmAccess::default()).then_some(access),
        imported: None,
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

impl<'a> Versions<'a> {
    /// As the command line says how each block begins.
    ///
    /// # Errors
    /// A command before the blocks that can't be run.
    pub(crate) fn starting(
        by_arm: BTreeMap<&'static str, Version>,
        arguments: &'a BlockStartArguments,
        stop: &'a Stop,
    ) -> anyhow::Result<Self> {
        let before_block = arguments.before_block.as_deref();
        Ok(Self {
            by_arm,
            ready: arguments.ready.clone(),
            before_block: before_block
                .map(|line| BeforeBlock::new(line, stop))
                .transpose()?,
        })
    }
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
        let parse = |given| Version::parse(given, "--target takes", &Access::default());
        assert!(matches!(
            parse("http://127.0.0.1:1"),
            Ok(Version::Url { .. })
        ));
        assert!(matches!(parse("unix:/x"), Ok(Version::Url { .. })));
        assert!(matches!(
            parse("sh -c 'x --url http://x/'"),
            Ok(Version::Command(_))
        ));
        assert!(matches!(parse("A=b /bin/sh"), Ok(Version::Command(_))));
        for wrong in [
            "no-such-program --port {port}",
            "sh -c 'open quote",
            "unix:",
            "ftp://127.0.0.1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let nothing = parse(" ").expect_err("nothing");
        assert!(nothing.to_string().starts_with("--target takes a URL"));
    }
}
