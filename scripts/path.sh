# Where the tools are, to be sourced in the tree's folder. First what setup.sh chose where the compiler of the PATH is too
# old, then rustup's; last the folders of the administrator, which a root got by `su` may lack.
export PATH="$PWD/target/tools/bin:$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
