# Runs a server for its parent: keeper.sh FOLDER SIGNAL PROGRAM [ARGUMENT...]
#
# The parent holds our input. A line there says that the server has ended and its folder stays. The end of the input
# says that the parent is gone or wants nothing back: the server is ended and its folder removed.
folder=$1
signal=$2
shift 2
"$@" </dev/null 2>>"$folder/log" &
server=$!
echo "$server"
# From here on only the server's processes hold our output: its end tells the parent that all of them are gone.
exec >&-
if read -r _; then
    wait "$server" 2>/dev/null
else
    kill -s "$signal" "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    cd /
    rm -rf "$folder"
fi
