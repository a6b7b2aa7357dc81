# Waits for its parent's end, then ends what the parent had started.
#
# Standard input is a pipe whose only writer is the parent; the kernel closes it when the parent
# ends in any way, kill -9 included. Until then each line is one order:
#   watch GROUP START SIGNAL   end this process group, whose leader started at START
#   release GROUP              no longer
#   remove PATH                remove this folder at the end
# START is field 22 of /proc/GROUP/stat: a leader with another start is a stranger that got the
# same number later, and is left alone.
trap '' HUP INT TERM QUIT PIPE
groups=
folders=

# Fields of a stat line after the name, which is in parentheses and may hold anything.
after_name() { fields=${1##*) }; }

is_stranger() {
    read -r line 2>/dev/null <"/proc/$1/stat" || return 1
    after_name "$line"
    # shellcheck disable=SC2086
    set -- "$2" $fields
    [ "$1" != "${21}" ]
}

# Is there a process in group $1 that isn't a zombie?
lives() {
    group=$1
    for stat in /proc/[0-9]*/stat; do
        { read -r line <"$stat"; } 2>/dev/null || continue
        after_name "$line"
        # shellcheck disable=SC2086
        set -- $fields
        [ "$3" = "$group" ] && [ "$1" != Z ] && return 0
    done
    return 1
}

without() {
    kept=
    for entry in $1; do
        case $entry in "$2":*) ;; *) kept="$kept $entry" ;; esac
    done
    printf %s "$kept"
}

while IFS=' ' read -r order rest; do
    case $order in
    watch)
        # shellcheck disable=SC2086
        set -- $rest
        groups="$groups $1:$2:$3"
        ;;
    release) groups=$(without "$groups" "$rest") ;;
    remove) folders="$folders$rest
" ;;
    esac
done

ours=
for entry in $groups; do
    number=${entry%%:*}
    entry=${entry#*:}
    is_stranger "$number" "${entry%%:*}" && continue
    ours="$ours $number"
    kill -s "${entry#*:}" -- "-$number" 2>/dev/null
done

# Three seconds to end by themselves, at the cost of a short sleep per look.
looks=0
while [ -n "$ours" ] && [ "$looks" -lt 60 ]; do
    left=
    for number in $ours; do
        lives "$number" && left="$left $number"
    done
    ours=$left
    [ -z "$ours" ] || sleep 0.05
    looks=$((looks + 1))
done
for number in $ours; do
    kill -s KILL -- "-$number" 2>/dev/null
done

printf %s "$folders" | while IFS= read -r folder; do
    # A process that was just killed may still be writing: look twice.
    rm -rf -- "$folder" 2>/dev/null || { sleep 0.2; rm -rf -- "$folder"; }
done
