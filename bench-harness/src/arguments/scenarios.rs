//! The command line of `unstall scenarios`.

use std::path::PathBuf;

use clap::Subcommand;

use super::assignment;

/// `unstall scenarios …`
#[derive(Debug, Subcommand)]
pub(crate) enum ScenariosCommand {
    /// Name the shipped scenarios and their endpoints
    #[command(after_help = "Example:\n  unstall scenarios list")]
    List,
    /// Print the file of a shipped scenario: the start of your own
    #[command(after_help = "Example:\n  unstall scenarios show tunnel-github > my.toml")]
    Show {
        /// A name from `unstall scenarios list`
        scenario: String,
    },
    /// Check scenario files without sending anything
    #[command(after_help = "Example:\n  unstall scenarios check my.toml")]
    Check {
        /// Paths of scenario files, or names of the catalogue
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Sets a variable of the scenario
        #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
        variables: Vec<(String, String)>,
    },
    /// Print a JSON Schema for editors
    #[command(
        after_help = "Examples:\n  unstall scenarios schema > scenario.schema.json\n  \
                      unstall scenarios schema policy > policy.schema.json"
    )]
    Schema {
        /// Of which file
        #[arg(value_enum, default_value_t = SchemaOf::Scenario)]
        of: SchemaOf,
    },
    /// Make a scenario file of curl commands, a browser's recording or an OpenAPI description
    #[command(
        after_help = "Examples:\n  unstall scenarios import curl commands.sh > usage.toml\n  \
                      pbpaste | unstall scenarios import curl - -o usage.toml\n  \
                      unstall scenarios import har shop.har --host api.shop.example\n  \
                      unstall scenarios import openapi openapi.yaml -o api.toml\n\n\
                      Credentials never get into the file: they become variables that the \
                      environment fills."
    )]
    Import {
        /// What the file is
        #[arg(value_enum, value_name = "FORMAT")]
        from: ImportFrom,
        /// The file, or `-` for the standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where to write it; a file that is there already stays as it is [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The scenario's name [default: by what is imported]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Of a recording: a host whose requests are kept; may be repeated, the first is the
        /// target [default: the one with the most requests]
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// Of a recording: keep images, styles, scripts and fonts, too
        #[arg(long = "all")]
        keeps_static: bool,
    },
}

/// What scenarios are imported from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImportFrom {
    /// curl command lines
    Curl,
    /// A browser's recording, HAR 1.2
    Har,
    /// An OpenAPI 3.0 or 3.1 description, JSON or YAML
    #[value(name = "openapi")]
    OpenApi,
}

/// Files with a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SchemaOf {
    /// A scenario file
    Scenario,
    /// A migration plan
    Migration,
    /// A policy of `gate`, `compare`, `report` and `ab`
    Policy,
    /// A certificate of `calibrate`
    Calibration,
    /// The document that --json prints
    Result,
}
