//! Git on a disk without room, of which git itself says little.

use unstall_sandbox_core::ports::caches::GitError;

use crate::small_disk::SmallDisk;
use crate::world::World;

#[tokio::test]
async fn a_checkout_without_room_says_that_the_disk_is_full_and_leaves_nothing() {
    let world = World::new().await;
    let Some(_disk) = SmallDisk::mount(world.git.root(), 16) else {
        return;
    };
    // It takes little where it is compressed, and more than there is where it is not.
    world.upstream("trunk", &[("big", &"0".repeat(24 << 20))]);
    world.ensure().await.expect("a cache");
    let path = world.new_path();
    let refused = world.create_at(&path, "mine").await.expect_err("no room");
    assert!(matches!(refused, GitError::DiskFull { .. }), "{refused:?}");
    let folder = path.under(world.git.root());
    let siblings = std::fs::read_dir(folder.parent().expect("a folder"));
    assert_eq!(siblings.expect("it is there").count(), 0);
}
