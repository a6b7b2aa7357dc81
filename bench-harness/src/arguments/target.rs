//! How a target is reached: the arguments of every command that takes one, in their raw form.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use unstall_bench_harness::engine::{Access, TargetOptions};

use crate::console::Console;
use crate::version::Version;

/// How targets are reached, where their URLs don't say all.
#[derive(Debug, Args)]
#[command(next_help_heading = "How to reach a URL")]
pub(crate) struct AccessArguments {
    /// Trust the CAs in this PEM file, instead of those that this machine trusts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show this certificate, PEM with its chain, to a service that wants one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_certificate: Option<PathBuf>,
    /// The private key of --client-certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    client_key: Option<PathBuf>,
    /// The service's name, instead of the URL's host: sent as Host, asked for by TLS (SNI), and
    /// expected in its certificate
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// Verify no certificate, for test services only; the record says so
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Make every TLS handshake a full one; else a user that connects again resumes its own session
    #[arg(long)]
    full_handshakes: bool,
    /// Go through an HTTP proxy, like http://user:password@10.0.0.1:3128; the environment's is
    /// never asked
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
}

impl AccessArguments {
    /// Reads the files, and says on stderr what a reader must not miss.
    ///
    /// # Errors
    /// The message names the option, the file, what was expected and what to do.
    pub(crate) fn resolve(&self, console: &Console) -> anyhow::Result<Access> {
        let access = Access::resolve(&TargetOptions {
            ca: self.ca.clone(),
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_key.clone(),
            server_name: self.server_name.clone(),
            insecure: self.insecure,
            full_handshakes: self.full_handshakes,
            proxy: self.proxy.clone(),
        })?;
        if access.is_insecure() {
            console.note("--insecure: certificates are not verified, anybody may be answering");
        }
        Ok(access)
    }

    /// Refuses options that nothing would come of.
    ///
    /// # Errors
    /// If there are some, and none of these versions is reached by its URL.
    pub(crate) fn refuse_unused(&self, versions: &[&Version]) -> anyhow::Result<()> {
        let is_url = |version: &&Version| matches!(version, Version::Url { .. });
        match self.first_given() {
            Some(option) if !versions.iter().any(is_url) => bail!(
                "{option} says how a URL is reached, and there is none: what a command starts is \
                 reached by plain HTTP on this machine; leave it out"
            ),
            _ => Ok(()),
        }
    }

    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--ca", self.ca.is_some()),
            ("--client-certificate", self.client_certificate.is_some()),
            ("--server-name", self.server_name.is_some()),
            ("--insecure", self.insecure),
            ("--full-handshakes", self.full_handshakes),
            ("--proxy", self.proxy.is_some()),
        ];
        let mut given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.next().map(|(option, _)| option)
    }
}
