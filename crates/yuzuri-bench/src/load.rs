//! Bulk traffic: a separate process with real connections moves the requested number of bytes, so
//! that its CPU time contains only the traffic. The process is this program, started with a hidden
//! subcommand.

use crate::cpu;
use crate::ends::Endpoints;
use crate::tidy::KillOnDrop;
use anyhow::{Context, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use yuzuri_kernel::netns;

/// The connections of a traffic process.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// The senders connect, the receivers accept.
    #[command(flatten)]
    pub ends: Endpoints,
    /// Number of connections
    #[arg(long)]
    pub flows: u32,
    /// Maximum segment size, bytes
    #[arg(long)]
    pub mss: Option<u32>,
}

/// Cost of one transfer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TransferCost {
    pub bytes: u64,
    pub wall_ns: u64,
    /// CPU time of the process, which sends and receives.
    pub cpu_ns: u64,
}

const CHUNK_BYTES: usize = 256 * 1024;
/// Every order finishes within this time; a longer one is stuck.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

/// A child process that runs this program with a hidden subcommand. It reads orders and writes
/// answers, one line each.
pub struct Worker {
    input: ChildStdin,
    lines: Receiver<String>,
    /// Ends the process on drop.
    _child: KillOnDrop,
}

impl Worker {
    /// Starts the process and waits until it is ready.
    pub fn start(args: &[String]) -> anyhow::Result<Worker> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        let mut child = KillOnDrop::spawn(command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let input = child.0.stdin.take().context("the traffic process's input")?;
        let output = child.0.stdout.take().context("the traffic process's output")?;
        let mut worker = Worker { input, lines: lines_of(output), _child: child };
        ensure!(worker.line()? == "ready", "the traffic process did not start");
        Ok(worker)
    }

    /// Sends an order.
    pub fn send_order(&mut self, order: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{order}").context("sending an order to the traffic process")
    }

    /// Waits for the next answer.
    pub fn line(&mut self) -> anyhow::Result<String> {
        self.lines
            .recv_timeout(ORDER_TIMEOUT)
            .context("the traffic process exited or is stuck (see its error above)")
    }
}

/// A running traffic process.
pub struct Load(Worker);

impl Load {
    /// Starts the process and waits until all connections are established.
    pub fn start(args: &LoadArgs) -> anyhow::Result<Load> {
        let mut argv = vec!["load".to_owned(), "--flows".to_owned(), args.flows.to_string()];
        argv.extend(args.ends.to_args());
        if let Some(mss) = args.mss {
            argv.extend(["--mss".into(), mss.to_string()]);
        }
        Worker::start(&argv).map(Load)
    }

    /// Moves this many bytes, divided among the connections.
    pub fn transfer(&mut self, bytes: u64) -> anyhow::Result<TransferCost> {
        self.0.send_order(&format!("bytes {bytes}"))?;
        self.wait()
    }

    /// Starts a transfer without waiting for its end; see [`Load::wait`].
    pub fn start_transfer(&mut self, bytes: u64) -> anyhow::Result<()> {
        self.0.send_order(&format!("bytes {bytes}"))
    }

    /// Starts paced writes: each connection writes `bytes` every `every`, for `time`, evenly
    /// spaced.
    pub fn start_paced(&mut self, bytes: u64, every: Duration, time: Duration) -> anyhow::Result<()> {
        let rounds = time.as_micros() / every.as_micros().max(1);
        self.0.send_order(&format!("paced {bytes} {} {rounds}", every.as_micros()))
    }

    /// Waits for the end of the order in progress.
    pub fn wait(&mut self) -> anyhow::Result<TransferCost> {
        Ok(serde_json::from_str(&self.0.line()?)?)
    }

    /// The result, if the order has finished.
    pub fn try_wait(&mut self) -> anyhow::Result<Option<TransferCost>> {
        match self.0.lines.try_recv() {
            Ok(line) => Ok(Some(serde_json::from_str(&line)?)),
            Err(std::sync::mpsc::TryRecvError::Empty) => Ok(None),
            Err(_) => anyhow::bail!("the traffic process exited"),
        }
    }
}

/// Lines of a child's output; the channel closes at end of file.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The traffic process: connects, then executes orders from standard input, one per line, until end
/// of file.
pub fn serve(args: &LoadArgs) -> anyhow::Result<()> {
    if let Some(cpu) = args.ends.cpu {
        cpu::pin(cpu)?;
    }
    let mut connections = Vec::new();
    let listener = in_namespace(&args.ends.into, || listen(args))?;
    let to = listener.local_addr()?.as_socket().context("the listener's address")?;
    let (done_to, done) = channel();
    for _ in 0..args.flows {
        let sender = in_namespace(&args.ends.from, || connect(args, to))?;
        let receiver: TcpStream = listener.accept().context("accepting")?.0.into();
        let (orders_to, orders) = channel();
        let done_to = done_to.clone();
        let builder = std::thread::Builder::new().stack_size(CHUNK_BYTES * 2);
        builder.spawn(move || receive(receiver, &orders, &done_to))?;
        connections.push(Connection { sender, orders: orders_to });
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (started, cpu_before) = (Instant::now(), cpu::this_process_ns()?);
        let bytes = match fields.as_slice() {
            ["bytes", bytes] => bulk(&connections, bytes.parse()?)?,
            ["paced", bytes, every_us, rounds] => paced(
                &connections,
                bytes.parse()?,
                Duration::from_micros(every_us.parse()?),
                rounds.parse()?,
            )?,
            _ => anyhow::bail!("unknown order '{line}'"),
        };
        for _ in &connections {
            done.recv()?.context("receiving")?;
        }
        let wall_ns = started.elapsed().as_nanos() as u64;
        let cost = TransferCost { bytes, wall_ns, cpu_ns: cpu::this_process_ns()? - cpu_before };
        println!("{}", serde_json::to_string(&cost)?);
    }
    Ok(())
}

struct Connection {
    sender: TcpStream,
    orders: Sender<u64>,
}

fn in_namespace<T: Send>(name: &str, f: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    netns::inside(name, f)?
}

fn socket(args: &LoadArgs) -> anyhow::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(args.ends.to, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    args.ends.set_congestion_control(&socket)?;
    if let Some(mss) = args.mss {
        socket.set_tcp_mss(mss).context("setting the maximum segment size")?;
    }
    Ok(socket)
}

fn listen(args: &LoadArgs) -> anyhow::Result<Socket> {
    let listener = socket(args)?;
    let to = args.ends.to;
    listener.bind(&SocketAddr::new(to, 0).into()).with_context(|| format!("binding to {to}"))?;
    listener.listen(args.flows.min(4096) as i32)?;
    Ok(listener)
}

fn connect(args: &LoadArgs, to: SocketAddr) -> anyhow::Result<TcpStream> {
    let sender = socket(args)?;
    sender.set_tcp_nodelay(true)?;
    sender
        .connect_timeout(&to.into(), Duration::from_secs(5))
        .with_context(|| format!("connecting to {to}"))?;
    Ok(sender.into())
}

fn receive(mut stream: TcpStream, orders: &Receiver<u64>, done: &Sender<anyhow::Result<()>>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    while let Ok(mut left) = orders.recv() {
        while left > 0 {
            let max = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = match stream.read(&mut buffer[..max]) {
                Ok(0) => Err(anyhow::anyhow!("the sender closed")),
                Ok(read) => Ok(read),
                Err(error) => Err(error.into()),
            };
            match read {
                Ok(read) => left -= read as u64,
                Err(error) => {
                    let _ = done.send(Err(error));
                    return;
                }
            }
        }
        if done.send(Ok(())).is_err() {
            return;
        }
    }
}

/// Each connection sends its share as fast as TCP allows.
fn bulk(connections: &[Connection], bytes: u64) -> anyhow::Result<u64> {
    let share = bytes / connections.len() as u64;
    let chunk = vec![0x5a; CHUNK_BYTES];
    std::thread::scope(|scope| {
        let chunk = &chunk;
        let senders: Vec<_> = (connections.iter())
            .map(|connection| {
                connection.orders.send(share)?;
                Ok(scope.spawn(move || {
                    let mut left = share;
                    while left > 0 {
                        let max = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                        left -= (&connection.sender).write(&chunk[..max])? as u64;
                    }
                    Ok::<(), std::io::Error>(())
                }))
            })
            .collect::<anyhow::Result<_>>()?;
        for sender in senders {
            sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))?.context("sending")?;
        }
        Ok(share * connections.len() as u64)
    })
}

/// Each connection writes `bytes` once per round; the connections are evenly spaced within the
/// round.
fn paced(connections: &[Connection], bytes: u64, every: Duration, rounds: u64) -> anyhow::Result<u64> {
    for connection in connections {
        connection.orders.send(bytes * rounds)?;
    }
    let chunk = vec![0x5a; bytes as usize];
    let started = Instant::now();
    let step = every / connections.len() as u32;
    for round in 0..rounds {
        for (i, connection) in connections.iter().enumerate() {
            let due = every * round as u32 + step * i as u32;
            // Connections that are due within the minimum sleep time write together.
            if let Some(wait) =
                due.checked_sub(started.elapsed()).filter(|wait| *wait > Duration::from_micros(100))
            {
                std::thread::sleep(wait);
            }
            (&connection.sender).write_all(&chunk).context("sending")?;
        }
    }
    Ok(bytes * rounds * connections.len() as u64)
}
