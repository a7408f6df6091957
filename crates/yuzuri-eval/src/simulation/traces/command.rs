//! Compares CUBIC, Reno and BBR with Linux 6.1 on the same path (20 Mbit/s, 50 ms, 100 packets, 60
//! s).

use super::{Kernel, simulated};
use yuzuri_sim::cc::Algorithm;

#[derive(clap::Args)]
pub struct Args {
    /// Print both windows of this algorithm over time, as CSV
    #[arg(value_name = "ALGORITHM")]
    windows_of: Option<String>,
}

/// Prints two rows for each algorithm.
pub fn run(args: &Args) {
    for (name, algorithm) in [("cubic", Algorithm::Cubic), ("reno", Algorithm::Reno), ("bbr", Algorithm::Bbr)]
    {
        let kernel = Kernel::read(name);
        let simulation = simulated(algorithm);
        match &args.windows_of {
            None => {
                println!("{name:6} kernel     {}", kernel.summary);
                println!(
                    "{name:6} simulation {}  in {:.0} ms of CPU",
                    simulation.summary,
                    simulation.cpu_s * 1e3
                );
            }
            Some(wanted) if wanted == name => {
                println!("source,t_s,cwnd,ssthresh,srtt_us");
                for (source, rows) in [("kernel", &kernel.rows), ("simulation", &simulation.rows)] {
                    for row in rows {
                        println!("{source},{:.3},{},{},{}", row.t_s, row.cwnd, row.ssthresh, row.srtt_us);
                    }
                }
            }
            Some(_) => {}
        }
    }
}
