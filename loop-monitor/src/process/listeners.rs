//! Which processes answer at an address of this machine: those that hold the listening socket.

use std::fs;
use std::net::SocketAddr;

use super::sockets::Sockets;
use super::{ProcessError, ProcessView};

/// The processes that listen where a connection of `from` to `address` arrives: several where they share a
/// socket, or its port (`SO_REUSEPORT`). Processes that may not be read are passed over.
///
/// # Errors
/// When the kernel's tables can't be read.
#[expect(clippy::disallowed_methods, reason = "folders of procfs, in memory")]
pub fn listeners(from: &ProcessView, address: SocketAddr) -> Result<Vec<u32>, ProcessError> {
    let inodes = Sockets::new(from).listening(address)?;
    let wanted: Vec<String> = inodes
        .iter()
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let mut found = Vec::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let processes = fs::read_dir("/proc").map_err(|source| ProcessError::Unreadable {
        path: "/proc".to_owned(),
        source,
    })?;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Of another user, or ended since it was listed.
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        // Closed since it was listed: not the one that listens.
        let links = descriptors
            .flatten()
            .filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        let mut listens =
            links.filter(|link| wanted.iter().any(|socket| link.as_os_str() == &**socket));
        if listens.next().is_some() {
            found.push(pid);
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_listening_socket_names_its_process_and_a_closed_one_nobody() {
        let own = ProcessView::own();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        assert_eq!(
            listeners(&own, address).expect("readable"),
            [std::process::id()]
        );
        drop(listener);
        assert_eq!(listeners(&own, address).expect("readable"), [0; 0]);
    }
}
