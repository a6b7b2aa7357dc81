//! What the command does when there is no space left at all, its own store included.

use unstall_sandbox_core::service::RESERVE_BYTES;

use crate::scene::Scene;
use crate::small_disk::SmallDisk;

#[test]
fn on_a_full_disk_all_is_told_and_a_workspace_can_still_be_let_go() {
    let scene = Scene::new();
    std::fs::create_dir(scene.root()).expect("a folder");
    let Some(disk) = SmallDisk::mount(&scene.root(), 64) else {
        return;
    };
    let id = scene.acquire("a");
    scene.done(&["exec", &id, "--", "sh", "-c", "echo mine > edit"]);
    let reserve = scene.root().join(".sandbox/reserve");
    let kept_bytes = || reserve.metadata().map_or(0, |found| found.len());
    assert_eq!(kept_bytes(), RESERVE_BYTES);
    scene.done(&["doctor"]);

    disk.fill();
    let document = scene.json(&["doctor"]);
    assert_eq!(document["exit_code"], 1, "{document}");
    let findings = document["findings"].as_array().expect("a list");
    let of_space = findings.iter().find(|found| found["what"] == "free space");
    let of_space = of_space.expect("it was looked at");
    assert_eq!(of_space["is_well"], false, "{document}");
    let told = of_space["found"].as_str().expect("a text");
    assert!(told.contains("counts as full"), "{told}");
    assert_eq!(scene.workspaces().len(), 1, "it can be listed");
    let gone = scene.done(&["evict", &id]);
    let note = &gone["eviction"]["decisions"][0]["note"];
    assert!(note.is_string(), "its edits were saved: {gone}");
    assert_eq!(scene.kept(&[], "a", "edit").as_deref(), Some("mine\n"));

    disk.clear();
    scene.acquire("b");
    scene.done(&["doctor"]);
    assert_eq!(kept_bytes(), RESERVE_BYTES, "it is kept back again");
    scene.assert_whole("after a full disk");
}

#[test]
fn the_doctor_is_not_well_without_room_for_the_reserve() {
    let scene = Scene::new();
    std::fs::create_dir(scene.root()).expect("a folder");
    let Some(_disk) = SmallDisk::mount(&scene.root(), 10) else {
        return;
    };
    let document = scene.json(&["doctor"]);
    assert_eq!(document["exit_code"], 1, "{document}");
    let told = document["findings"].to_string();
    assert!(told.contains("kept back"), "{told}");
}
