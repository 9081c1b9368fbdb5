#!/bin/bash
# Module of dracut: the links in /dev/disk/azure exist before the root file system is mounted.

check() {
    # azure-vm-utils has rules and a module of its own.
    [[ ! -e /usr/lib/udev/rules.d/80-azure-disk.rules && ! -e /lib/udev/rules.d/80-azure-disk.rules ]]
}

depends() {
    echo udev-rules
}

add_command() {
    local files kind path
    why=$(env -i LC_ALL=C /usr/lib/azure-init/initramfs-files 2>&1) || return 1
    files=$why why="a file cannot be copied"
    while read -r kind path; do
        case "$kind" in
            program) inst "$path" || return 1 ;;
            directory) inst_dir "$path" || return 1 ;;
            file) inst_simple "$path" || return 1 ;;
        esac
    done <<< "$files"
}

install() {
    local why
    inst_rules 80-azure-init-disk.rules
    if ! add_command; then
        # Without this file the rules do not call the command.
        rm -f "$initdir/usr/lib/azure-init/azure-nvme-id"
        dwarn "azure-init-disks: Python cannot be put into the initramfs (${why##*$'\n'}): local/by-index and" \
            "local/by-name in /dev/disk/azure exist only after the root file system is mounted"
    fi
}
