//! Privileged work during the observation, done by two helper processes, so that the process that
//! serves the page can drop all privileges. One helper finds the processes that hold sockets; the
//! other lists network namespaces, opens `sock_diag` sockets in them and connects to the sharing
//! daemon. Requests contain only numbers: no path, no name, no trusted length. Each helper keeps
//! only the capabilities that its job needs, and may read files but not write any. It ends when its
//! client has ended.

#![expect(unsafe_code, reason = "fork and what follows it")]

use crate::diag::Diag;
use crate::netns::{self, NetNamespace};
use crate::owners::{self, Found};
use caps::Capability;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, fork};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use yuzuri_confine::{Identity, SystemCalls};
use yuzuri_trace::Owner;

static HELPERS: OnceLock<Helpers> = OnceLock::new();

/// Maximum number of namespaces in an answer.
const MAX_SPACES: u32 = 1 << 16;
/// How often a waiting client checks whether the answer is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// How many files a search reads between two checks whether its answer is still wanted.
const FILES_PER_CHECK: u32 = 64;

const LIST: u8 = b'n';
const DIAG: u8 = b'd';
const SHARE: u8 = b's';

struct Helpers {
    /// Whether this process will change its user: then all threads drop capabilities at the same
    /// time.
    changes_user: bool,
    owners: Channel,
    sockets: Channel,
}

/// The channel to a helper; one request at a time.
struct Channel {
    what: &'static str,
    stream: Mutex<UnixStream>,
    ended: AtomicBool,
}

/// Starts the helpers. From then on this process sends them its requests, so it can drop its
/// privileges once the observation runs. `changes_user`: the process will also change its user.
/// `share_socket`: the sharing daemon's socket for [`share_connection`]. Call it once, before other
/// threads start. Without privilege nothing is started: a helper could do no more than this
/// process.
///
/// # Errors
/// If the system has no room for two processes.
pub fn start(share_socket: Option<PathBuf>, changes_user: bool) -> io::Result<()> {
    if HELPERS.get().is_some() || !yuzuri_confine::has_privilege() {
        return Ok(());
    }
    let owners = Channel::to("finds the processes of sockets", serve_owners)?;
    let sockets = Channel::to("opens sockets in network namespaces", move |stream| {
        serve_sockets(stream, share_socket.as_deref())
    })?;
    let _ = HELPERS.set(Helpers { changes_user, owners, sockets });
    Ok(())
}

/// Whether this process has dropped its privileges, or is about to.
pub fn is_used() -> bool {
    HELPERS.get().is_some()
}

/// Drops the capabilities of the calling thread if the helpers do the work that needs them. It does
/// nothing if the whole process will change its user: all threads must be able to do so, or the C
/// library ends the process.
pub fn drop_capabilities_of_thread() {
    if HELPERS.get().is_some_and(|helpers| !helpers.changes_user) {
        // If this fails, dropping the privileges of the process fails, too, and reports it.
        let _ = yuzuri_confine::drop_capabilities();
    }
}

impl Channel {
    fn to(what: &'static str, serve: impl FnOnce(UnixStream) -> io::Result<()>) -> io::Result<Channel> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: no other thread runs yet (see `start`), so none can hold a lock that the child
        // would wait for.
        match unsafe { fork() }? {
            ForkResult::Parent { .. } => {
                ours.set_read_timeout(Some(CHECK_INTERVAL))?;
                Ok(Channel { what, stream: Mutex::new(ours), ended: AtomicBool::new(false) })
            }
            ForkResult::Child => {
                close_all_but(&theirs);
                let code = match serve(theirs) {
                    Ok(()) => 0,
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                    Err(error) => {
                        eprintln!("yuzuri: the process that {what} has ended: {error}");
                        1
                    }
                };
                // SAFETY: it ends the process. None of the parent's state that this process has
                // copied needs cleanup.
                unsafe { libc::_exit(code) }
            }
        }
    }

    /// Sends a request. `None` if the helper has ended (reported once), or if the answer is no
    /// longer wanted.
    fn ask<T>(
        &self,
        question: &[u8],
        wanted: &dyn Fn() -> bool,
        read: impl FnOnce(&mut dyn Read, &UnixStream) -> io::Result<T>,
    ) -> Option<T> {
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let mut stream = self.stream.lock();
        let asked = stream
            .write_all(question)
            .and_then(|()| read(&mut CancellableReader { stream: &stream, wanted }, &stream));
        match asked {
            Ok(answer) => Some(answer),
            Err(error) => {
                // A late answer must not be taken for the answer to the next request.
                let _ = stream.shutdown(std::net::Shutdown::Both);
                if !self.ended.swap(true, Ordering::Relaxed) && wanted() {
                    eprintln!("yuzuri: the process that {} does not answer: {error}", self.what);
                }
                None
            }
        }
    }
}

/// Reads as long as the answer is wanted.
struct CancellableReader<'a> {
    stream: &'a UnixStream,
    wanted: &'a dyn Fn() -> bool,
}

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !(self.wanted)() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                result => return result,
            }
        }
    }
}

/// In the child: keeps only this descriptor and standard error, and ignores signals, which are for
/// the client.
fn close_all_but(kept: &UnixStream) {
    for heard in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE] {
        // SAFETY: the signals are ignored, so no handler of ours runs.
        let _ = unsafe { signal(heard, SigHandler::SigIgn) };
    }
    let kept = kept.as_raw_fd();
    // SAFETY: the arguments are integers; the owners of those descriptors were in the parent, and
    // nothing in this process uses them.
    unsafe {
        if kept > 3 {
            libc::close_range(3, kept as u32 - 1, 0);
        }
        libc::close_range(kept as u32 + 1, u32::MAX, 0);
    }
    if let Ok(null) = open("/dev/null", OFlag::O_RDWR, Mode::empty()) {
        for fd in [0, 1] {
            // SAFETY: the arguments are integers; standard input and output become /dev/null.
            unsafe { libc::dup2(null.as_raw_fd(), fd) };
        }
    }
}

fn confine(capabilities: &[Capability], identity: Option<Identity>, calls: &SystemCalls) -> io::Result<()> {
    yuzuri_confine::keep_only(capabilities, identity)
        .and_then(|()| calls.permit_only())
        .map_err(io::Error::other)
}

fn number<const N: usize>(from: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// Owners of the sockets with these inode numbers. `None`: no helper is in use.
pub(crate) fn owners(wanted: &HashSet<u64>, still: &dyn Fn() -> bool) -> Option<Found> {
    let channel = &HELPERS.get()?.owners;
    let mut question = (wanted.len() as u32).to_le_bytes().to_vec();
    wanted.iter().for_each(|inode| question.extend_from_slice(&inode.to_le_bytes()));
    let read = |from: &mut dyn Read, _: &UnixStream| {
        let mut found = Found::new();
        for _ in 0..u32::from_le_bytes(number(from)?) {
            let inode = u64::from_le_bytes(number(from)?);
            let pid = u32::from_le_bytes(number(from)?);
            let name = text(from)?;
            if !wanted.contains(&inode) {
                return Err(broken("it reports what was not requested"));
            }
            found.insert(inode, Owner { pid, name });
        }
        Ok(found)
    };
    Some(channel.ask(&question, still, read).unwrap_or_default())
}

fn text(from: &mut dyn Read) -> io::Result<String> {
    let [length] = number(from)?;
    let mut bytes = vec![0; usize::from(length)];
    from.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Maximum number of sockets in a request: as many as the kernel's table of owners ever holds.
const MAX_ASKED: usize = 1 << 20;

fn serve_owners(mut stream: UnixStream) -> io::Result<()> {
    // SAFETY: a name that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"yuzuri-owners".as_ptr()) };
    // To inspect processes of other users (proc(5): PTRACE_MODE_READ_FSCREDS) and their folders of
    // mode 0500.
    let capabilities = [Capability::CAP_SYS_PTRACE, Capability::CAP_DAC_READ_SEARCH];
    let identity = Identity::of_its_own().map_err(io::Error::other)?;
    confine(&capabilities, identity, &SystemCalls::of_open_sockets().reading_files())?;
    loop {
        let count = u32::from_le_bytes(number(&mut stream)?) as usize;
        if count > MAX_ASKED {
            return Err(broken("too many sockets are requested"));
        }
        let wanted = (0..count).map(|_| number(&mut stream).map(u64::from_le_bytes));
        let wanted: HashSet<u64> = wanted.collect::<io::Result<_>>()?;
        let files = Cell::new(0u32);
        let found = owners::find(&wanted, &|| {
            files.set(files.get().wrapping_add(1));
            files.get().is_multiple_of(FILES_PER_CHECK) && is_closed(&stream)
        });
        let mut answer = (found.len() as u32).to_le_bytes().to_vec();
        for (inode, owner) in found {
            answer.extend_from_slice(&inode.to_le_bytes());
            answer.extend_from_slice(&owner.pid.to_le_bytes());
            put_text(&mut answer, &owner.name);
        }
        stream.write_all(&answer)?;
    }
}

/// Whether the client has ended.
fn is_closed(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Every network namespace that has a name or a process. `None`: no helper is in use.
pub(crate) fn spaces() -> Option<Vec<NetNamespace>> {
    let channel = &HELPERS.get()?.sockets;
    let read = |from: &mut dyn Read, _: &UnixStream| {
        let count = u32::from_le_bytes(number(from)?);
        if count > MAX_SPACES {
            return Err(broken("it reports too many namespaces"));
        }
        let space = |_| {
            let (number, name) = (u32::from_le_bytes(number(from)?), text(from)?);
            Ok(NetNamespace { number, name: (!name.is_empty()).then_some(name), path: PathBuf::new() })
        };
        (0..count).map(space).collect()
    };
    Some(channel.ask(&[LIST], &|| true, read).unwrap_or_default())
}

/// A `sock_diag` socket in a network namespace. `None`: no helper is in use.
pub(crate) fn diag(space: u32) -> Option<io::Result<Diag>> {
    let mut question = vec![DIAG];
    question.extend_from_slice(&space.to_le_bytes());
    Some(descriptor(&question)?.map(Diag::of))
}

/// A connection to the sharing daemon whose request is already complete: it requests the status and
/// cannot request anything else.
///
/// # Errors
/// Why the daemon cannot be reached.
pub fn share_connection() -> io::Result<UnixStream> {
    match descriptor(&[SHARE]) {
        Some(socket) => socket.map(UnixStream::from),
        None => Err(io::Error::other("no helper was started to reach the sharing daemon")),
    }
}

/// A descriptor opened by the helper. `None`: no helper is in use.
fn descriptor(question: &[u8]) -> Option<io::Result<OwnedFd>> {
    let channel = &HELPERS.get()?.sockets;
    let read = |_: &mut dyn Read, stream: &UnixStream| receive(stream);
    let gone = || Err(io::Error::other("the process that opens it has ended"));
    Some(channel.ask(question, &|| true, read).unwrap_or_else(gone))
}

/// Receives an error number, or 0 and a descriptor.
fn receive(stream: &UnixStream) -> io::Result<io::Result<OwnedFd>> {
    let mut errno = [0; 4];
    let mut space = nix::cmsg_space!(RawFd);
    let message = loop {
        let mut into = [IoSliceMut::new(&mut errno)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_WAITALL;
        match recvmsg::<()>(stream.as_raw_fd(), &mut into, Some(&mut space), flags) {
            // The daemon may take a while to accept.
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
            Ok(message) => {
                let rights = message.cmsgs()?.find_map(|control| match control {
                    ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                    _ => None,
                });
                // SAFETY: the kernel has just created the descriptor for us.
                break (message.bytes, rights.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
    };
    match (message, i32::from_le_bytes(errno)) {
        ((4, Some(fd)), 0) => Ok(Ok(fd)),
        ((4, None), errno) if errno > 0 => Ok(Err(io::Error::from_raw_os_error(errno))),
        ((0, _), _) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(broken("it answers with something other than a descriptor")),
    }
}

fn send(stream: &UnixStream, opened: &io::Result<OwnedFd>) -> io::Result<()> {
    let errno = opened.as_ref().map_or_else(|e| e.raw_os_error().unwrap_or(libc::EIO), |_| 0).to_le_bytes();
    let fds: Vec<RawFd> = opened.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<()>(stream.as_raw_fd(), &[IoSlice::new(&errno)], control, MsgFlags::empty(), None)?;
    Ok(())
}

fn serve_sockets(mut stream: UnixStream, share_socket: Option<&std::path::Path>) -> io::Result<()> {
    // SAFETY: a name that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"yuzuri-sockets".as_ptr()) };
    let home = std::fs::File::open("/proc/self/ns/net")?;
    // To enter namespaces, and to find those that only processes have. The user stays root, who
    // owns the daemon's socket.
    let capabilities = [Capability::CAP_SYS_ADMIN, Capability::CAP_SYS_PTRACE];
    let calls =
        SystemCalls::of_open_sockets().reading_files().asking_this_machine().entering_network_namespaces();
    confine(&capabilities, None, &calls)?;
    let mut spaces = Vec::new();
    loop {
        let [question] = number(&mut stream)?;
        match question {
            LIST => {
                spaces = netns::all_seen();
                spaces.truncate(MAX_SPACES as usize);
                let mut answer = (spaces.len() as u32).to_le_bytes().to_vec();
                for NetNamespace { number, name, .. } in &spaces {
                    answer.extend_from_slice(&number.to_le_bytes());
                    put_text(&mut answer, name.as_deref().unwrap_or_default());
                }
                stream.write_all(&answer)?;
            }
            DIAG => {
                let number = u32::from_le_bytes(number(&mut stream)?);
                if !spaces.iter().any(|space: &NetNamespace| space.number == number) {
                    spaces = netns::all_seen();
                }
                let space = spaces.iter().find(|space| space.number == number);
                let opened = match space {
                    None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
                    Some(space) => std::fs::File::open(&space.path).and_then(|there| {
                        setns(there, CloneFlags::CLONE_NEWNET)?;
                        let opened = Diag::open().map(Diag::into_socket);
                        // If that fails, everything after it would be wrong.
                        setns(&home, CloneFlags::CLONE_NEWNET)?;
                        opened
                    }),
                };
                if !netns::is_at(&home) {
                    return Err(broken("it did not come back from a network namespace"));
                }
                send(&stream, &opened)?;
            }
            SHARE => {
                let reached = match share_socket {
                    None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
                    Some(path) => UnixStream::connect(path).and_then(|daemon| {
                        daemon.shutdown(std::net::Shutdown::Write)?;
                        Ok(OwnedFd::from(daemon))
                    }),
                };
                send(&stream, &reached)?;
            }
            _ => return Err(broken("an unknown request")),
        }
    }
}
