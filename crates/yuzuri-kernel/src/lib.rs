//! All that is privileged: BPF programs and their loader, sock_diag, and what this kernel offers.
