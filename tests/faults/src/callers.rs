//! Which process is at the other end of a connection over loopback, by what the kernel says.
//!
//! Every coordinator is known to all others by one address, so a proxy there cannot tell them apart
//! by where they connect to.

use crate::places::Place;
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};

/// The processes that run. Clones are the same roster.
#[derive(Clone, Debug, Default)]
pub struct Roster(Arc<Mutex<BTreeMap<Place, u32>>>);

impl Roster {
    /// A process has started.
    pub fn add(&self, place: Place, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, pid);
    }

    /// It has ended.
    pub fn remove(&self, place: Place) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }

    /// Whose connection from `client` to `server` is; `None` if it is nobody's on the roster any more.
    pub fn caller(&self, client: SocketAddr, server: SocketAddr) -> Option<Place> {
        let (SocketAddr::V4(client), SocketAddr::V4(server)) = (client, server) else { return None };
        let socket = format!("socket:[{}]", inode(client, server)?);
        let processes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        processes.into_iter().find(|(_, pid)| holds(*pid, &socket)).map(|(place, _)| place)
    }
}

/// The inode of the client's socket.
fn inode(client: SocketAddrV4, server: SocketAddrV4) -> Option<u64> {
    let (client, server) = (hexadecimal(client), hexadecimal(server));
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = |row: &Vec<&str>| row.get(1) == Some(&client.as_str()) && row.get(2) == Some(&server.as_str());
    row.filter(ours).find_map(|row| row.get(9)?.parse().ok().filter(|inode| *inode != 0))
}

/// As the kernel prints it: the address as a number in this machine's order of bytes.
fn hexadecimal(address: SocketAddrV4) -> String {
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

fn holds(pid: u32, socket: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_connection_is_known_by_the_process_that_made_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = listener.local_addr().expect("bound");
        let client = TcpStream::connect(server).await.expect("connected");
        let from = client.local_addr().expect("connected");
        let roster = Roster::default();
        assert_eq!(roster.caller(from, server), None);
        roster.add(Place::Coordinator(2), std::process::id());
        assert_eq!(roster.caller(from, server), Some(Place::Coordinator(2)));
        assert_eq!(roster.caller(server, from), None, "nobody accepted it yet");
        drop(client);
        roster.remove(Place::Coordinator(2));
        assert_eq!(roster.caller(from, server), None);
    }
}
