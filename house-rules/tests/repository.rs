//! This repository keeps its own rules.

use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};
use unstall_house_rules::{self as rules, Dependency, Package, Tree, Violation};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is in the repository's root")
}

fn tree() -> Tree {
    Tree::read(root()).expect("git lists the repository's files")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo metadata reads the workspace");
    let packages = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| Package {
            name: package.name.to_string(),
            folder: package
                .manifest_path
                .parent()
                .and_then(|folder| folder.strip_prefix(&metadata.workspace_root).ok())
                .expect("crates are below the root")
                .to_string(),
            dependencies: package
                .dependencies
                .iter()
                .map(|dependency| Dependency {
                    name: dependency.name.clone(),
                    is_for_tests: dependency.kind == DependencyKind::Development,
                    is_optional: dependency.optional,
                })
                .collect(),
        });
    packages.collect()
}

#[track_caller]
fn assert_none(violations: &[Violation]) {
    let list: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(
        list.is_empty(),
        "{} violations:\n{}",
        list.len(),
        list.join("\n")
    );
}

#[test]
fn what_is_checked_is_there() {
    let tree = tree();
    assert!(tree.ending_in("rs").count() > 20 && tree.text("Cargo.toml").is_some());
    assert!(packages().len() >= 8);
}

#[test]
fn crates_use_only_what_they_may() {
    assert_none(&rules::dependency_violations(&packages()));
}

#[test]
fn confined_crates_stay_in_their_folders() {
    assert_none(&rules::use_violations(&tree()));
}

#[test]
fn layers_know_only_what_they_may() {
    assert_none(&rules::layer_violations(&tree()));
}

#[test]
fn files_and_functions_are_small() {
    assert_none(&rules::size_violations(&tree()));
}

#[test]
fn files_have_names_that_say_something() {
    assert_none(&rules::name_violations(&tree()));
}

#[test]
fn files_begin_by_saying_why_they_exist() {
    assert_none(&rules::head_violations(&tree()));
}

#[test]
fn lints_are_the_workspaces_and_silenced_with_reasons() {
    let tree = tree();
    assert_none(&rules::manifest_violations(&tree));
    assert_none(&rules::attribute_violations(&tree));
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    assert_none(&rules::unsafe_violations(&tree()));
}

#[test]
fn nothing_knows_one_machine() {
    assert_none(&rules::machine_violations(&tree()));
}

#[test]
fn the_lock_file_is_committed_and_no_toolchain_pinned() {
    assert_none(&rules::lock_violations(&tree()));
}

#[test]
fn the_architecture_names_every_crate() {
    assert_none(&rules::architecture_violations(
        &page("ARCHITECTURE.md"),
        &packages(),
    ));
}

#[test]
fn every_dependency_has_its_reason() {
    assert_none(&rules::reason_violations(
        &page("CONTRIBUTING.md"),
        &packages(),
    ));
}
