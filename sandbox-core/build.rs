//! Rebuilds the crate when a migration is added: the macro that embeds the folders sees changed
//! files only.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
