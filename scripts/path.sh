# The search path for tools, to be sourced in the root of the tree. First the compiler that setup.sh
# selected if that in PATH is too old, then rustup's; finally the administrator's folders, which
# root may lack after `su`.
export PATH="$PWD/target/tools/bin:$HOME/.cargo/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin"
