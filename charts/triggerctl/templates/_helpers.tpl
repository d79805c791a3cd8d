{{- define "triggerctl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Name of all objects, short enough for a label with a Job's suffix. */}}
{{- define "triggerctl.fullname" -}}
{{- $name := include "triggerctl.name" . }}
{{- $full := printf "%s-%s" .Release.Name $name }}
{{- if contains $name .Release.Name }}{{ $full = .Release.Name }}{{ end }}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Labels of a pod that never change, used as selector. Argument: {root, component}. */}}
{{- define "triggerctl.selector" -}}
app.kubernetes.io/name: {{ include "triggerctl.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Labels of every object. Argument: {root, component}. */}}
{{- define "triggerctl.labels" -}}
{{- $own := include "triggerctl.selector" . | fromYaml }}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
{{- merge $own .root.Values.labels | toYaml }}
{{- end }}

{{- /* List of the Deployments. With two of them the checkpoint key is mounted only where no tasks run. Each component has a name of its own, because the selector of a Deployment cannot be changed. */}}
{{- define "triggerctl.parts" -}}
{{- $full := include "triggerctl.fullname" . }}
{{- if .Values.split.enabled }}
- component: api
  fullname: {{ $full }}-api
  service: {{ $full }}
  without: loop,runner
  replicas: {{ .Values.split.apiReplicaCount }}
  resources: {{ default .Values.resources .Values.split.apiResources | toJson }}
  launches: false
  checkpoints: {{ .Values.checkpoints.existingSecret | quote }}
- component: worker
  fullname: {{ $full }}-worker
  service: {{ $full }}-worker
  without: web
  replicas: {{ .Values.replicaCount }}
  resources: {{ .Values.resources | toJson }}
  launches: true
  checkpoints: ""
{{- else }}
- component: controller
  fullname: {{ $full }}
  service: {{ $full }}
  without: ""
  replicas: {{ .Values.replicaCount }}
  resources: {{ .Values.resources | toJson }}
  launches: true
  checkpoints: {{ .Values.checkpoints.existingSecret | quote }}
{{- end }}
{{- end }}

{{- /* Component with API and web page. */}}
{{- define "triggerctl.front" -}}
{{- .Values.split.enabled | ternary "api" "controller" }}
{{- end }}

{{- define "triggerctl.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{- define "triggerctl.account" -}}
{{- $made := .Values.serviceAccount.create | ternary (include "triggerctl.fullname" .) "default" }}
{{- default $made .Values.serviceAccount.name }}
{{- end }}

{{- /* "true" if launching pods get rights in Kubernetes, else empty. */}}
{{- define "triggerctl.hasRights" -}}
{{- if or .Values.taskSecrets.kubernetes.enabled .Values.launchers.kubernetes.enabled .Values.launchers.extraRules .Values.launchers.extraClusterRules }}true{{ end }}
{{- end }}

{{- define "triggerctl.serviceUrl" -}}
{{- $port := .Values.service.port | int }}
{{- printf "http://%s.%s.svc%s" (include "triggerctl.fullname" .) .Release.Namespace (eq $port 80 | ternary "" (printf ":%d" $port)) }}
{{- end }}

{{- /* Prometheus job of this installation: the same for all its Services, and unique in the cluster. */}}
{{- define "triggerctl.job" -}}
{{- printf "%s/%s" .Release.Namespace (include "triggerctl.fullname" .) }}
{{- end }}

{{- /* Seconds of a duration like 10s, 1.5m or 1h, rounded up. */}}
{{- define "triggerctl.seconds" -}}
{{- $unit := get (dict "s" 1 "m" 60 "h" 3600 "d" 86400 "w" 604800 "y" 31536000) (regexFind "[a-z]$" .) }}
{{- mulf (regexFind "^[0-9.]+" . | float64) $unit | ceil | int64 }}
{{- end }}

{{- /* Settings file. It does not contain the database URL, which may include a password. */}}
{{- define "triggerctl.settings" -}}
{{- $settings := dict "listen" "0.0.0.0:8080" "access" "required" "url" (default (include "triggerctl.serviceUrl" .) .Values.url) "work_dir" (eq .Values.database.type "sqlite" | ternary "/data/work" "/work") }}
{{- range $name, $value := .Values.controller }}
{{- if not (kindIs "string" $value | and (empty $value)) }}{{ $_ := set $settings (snakecase $name) $value }}{{ end }}
{{- end }}
{{- if .Values.access.oidc.issuer }}
{{- range $name, $value := .Values.access.oidc }}{{ $_ := set $settings (printf "oidc_%s" (snakecase $name)) $value }}{{ end }}
{{- end }}
{{- if .Values.checkpoints.existingSecret }}
{{- $_ := set $settings "checkpoint_key_file" (printf "/etc/triggerctl/checkpoints/%s" .Values.checkpoints.key) }}
{{- end }}
{{- with .Values.taskSecrets }}
{{- if include "triggerctl.hasSecrets" $ }}{{ $_ := set $settings "secrets_dir" "/etc/triggerctl/secrets" }}{{ end }}
{{- if .kubernetes.enabled }}
{{- $_ := set $settings "secrets_from" "environment,files,kubernetes" }}
{{- if .kubernetes.namespace }}{{ $_ := set $settings "secrets_namespace" .kubernetes.namespace }}{{ end }}
{{- end }}
{{- end }}
{{- range $name, $value := mergeOverwrite $settings .Values.settings }}
{{ $name }}: {{ toJson $value }}
{{- end }}
{{- end }}

{{- /* "true" if task secrets are mounted as files, else empty. */}}
{{- define "triggerctl.hasSecrets" -}}
{{- if or .Values.taskSecrets.existingSecret .Values.taskSecrets.scopes }}true{{ end }}
{{- end }}

{{- /* Sources of the volume with task secrets: <NAME>, and <scope>/<NAME>, which is not valid as a Secret's key. */}}
{{- define "triggerctl.secrets" -}}
{{- with .Values.taskSecrets.existingSecret }}
- secret: {name: {{ . }}}
{{- end }}
{{- range $scope, $from := .Values.taskSecrets.scopes }}
- secret:
    name: {{ $from.existingSecret }}
    items:
      {{- range $from.keys }}
      - {key: {{ . }}, path: {{ printf "%s/%s" $scope . | quote }}}
      {{- end }}
{{- end }}
{{- end }}

{{- /* Environment variables with the database URLs. */}}
{{- define "triggerctl.databaseEnv" -}}
{{- with .Values.database }}
{{- if eq .type "sqlite" }}
- name: TRIGGERCTL_DATABASE_URL
  value: sqlite:////data/triggerctl.db
{{- else }}
- name: TRIGGERCTL_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .postgresql.existingSecret }}, key: {{ .postgresql.urlKey }}}
{{- if .postgresql.listenUrlKey }}
- name: TRIGGERCTL_LISTEN_URL
  valueFrom:
    secretKeyRef: {name: {{ .postgresql.existingSecret }}, key: {{ .postgresql.listenUrlKey }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Jobs that run before each install and upgrade, in this order. A failed Job prevents the next one. */}}
{{- define "triggerctl.jobs" -}}
{{- $isSqlite := eq .Values.database.type "sqlite" }}
{{- $past := .Values.database.postgresql }}
{{- $url := dict "name" "TRIGGERCTL_DATABASE_URL" }}
{{- if $isSqlite }}
{{- $_ := set $url "value" "sqlite:////data/triggerctl.db" }}
{{- else }}
{{- $_ := dict "name" $past.existingSecret "key" (default $past.urlKey $past.listenUrlKey) | dict "secretKeyRef" | set $url "valueFrom" }}
{{- end }}
{{- if and .Values.migrations.enabled (not $isSqlite) }}
- component: migrations
  weight: 0
  retries: 3
  args: [db, upgrade]
  env: {{ list $url | toJson }}
{{- end }}
{{- if .Values.baseline }}
- component: baseline
  weight: 1
  retries: 0
  args: [up, --baseline={{ .Values.baseline }}, "--without=api,web,loop,runner"]
  env: {{ list $url (dict "name" "TRIGGERCTL_RESYNC_INTERVAL" "value" .Values.controller.resyncInterval) | toJson }}
  onVolume: {{ $isSqlite }}
{{- end }}
{{- end }}

{{- /* Volume of the SQLite file. */}}
{{- define "triggerctl.data" -}}
- name: data
  persistentVolumeClaim:
    claimName: {{ default (include "triggerctl.fullname" .) .Values.database.sqlite.existingClaim }}
{{- end }}

{{- /* Fields common to all pods. */}}
{{- define "triggerctl.pod" -}}
securityContext: {{ toJson .Values.podSecurityContext }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Fields common to all containers. */}}
{{- define "triggerctl.container" -}}
image: {{ include "triggerctl.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{ toJson .Values.securityContext }}
{{- end }}

{{- /* Conflicts between values that the schema cannot express with a clear message. */}}
{{- define "triggerctl.check" -}}
{{- $database := .Values.database }}
{{- if eq $database.type "sqlite" }}
{{- if gt (int .Values.replicaCount) 1 }}
{{- fail (printf "replicaCount: %d controllers cannot share one SQLite file; set database.type=postgresql and database.postgresql.existingSecret, or replicaCount=1" (int .Values.replicaCount)) }}
{{- end }}
{{- if .Values.split.enabled }}
{{- fail "split.enabled: two Deployments cannot share one SQLite file; set database.type=postgresql and database.postgresql.existingSecret, or split.enabled=false" }}
{{- end }}
{{- if $database.postgresql.existingSecret }}
{{- fail "database.postgresql.existingSecret: it is not used with database.type=sqlite; set database.type=postgresql, or leave the secret out" }}
{{- end }}
{{- else if not $database.postgresql.existingSecret }}
{{- fail "database.postgresql.existingSecret: PostgreSQL needs a Secret with its URL; make one with `kubectl create secret generic triggerctl-database --from-literal=url=postgresql://user:password@host/database` and name it" }}
{{- end }}
{{- if and .Values.baseline (eq $database.type "sqlite") .Release.IsInstall (not $database.sqlite.existingClaim) }}
{{- fail "baseline: a volume that this install makes holds nothing to begin anew from; install without it, or name the restored volume in database.sqlite.existingClaim" }}
{{- end }}
{{- if eq (include "triggerctl.seconds" .Values.controller.resyncInterval) "0" }}
{{- fail "controller.resyncInterval: it must be 1s or more" }}
{{- end }}
{{- $policy := .Values.networkPolicy }}
{{- if and $policy.enabled $policy.restrictEgress (not $policy.egress) (ne $database.type "sqlite") }}
{{- fail "networkPolicy.egress: with restrictEgress no pod reaches the database; name the way to it, such as {to: [{ipBlock: {cidr: 10.0.0.5/32}}], ports: [{port: 5432}]}, or set restrictEgress=false" }}
{{- end }}
{{- $account := .Values.serviceAccount }}
{{- if and (include "triggerctl.hasRights" .) (not $account.create) (not $account.name) }}
{{- fail "serviceAccount.name: the rights of launchers and taskSecrets.kubernetes would go to the account `default`, which every pod of the namespace has that names no other; name one that is there already, or set serviceAccount.create=true" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.host: an Ingress needs the name people use; set it, or ingress.enabled=false" }}
{{- end }}
{{- $oidc := .Values.access.oidc }}
{{- if ne (empty $oidc.issuer) (empty $oidc.audience) }}
{{- fail "access.oidc: issuer and audience belong together, so that a token for another service does not count here; set both, or neither" }}
{{- end }}
{{- if and $oidc.issuer (not $oidc.grants) }}
{{- fail "access.oidc.grants: nobody whom the issuer vouches for is granted anything; say what, such as {platform: admin}, or leave the issuer out" }}
{{- end }}
{{- $monitor := .Values.metrics.serviceMonitor }}
{{- if and $monitor.enabled (gt (include "triggerctl.seconds" $monitor.scrapeTimeout | int) (include "triggerctl.seconds" $monitor.interval | int)) }}
{{- fail (printf "metrics.serviceMonitor.scrapeTimeout: %s is longer than the interval of %s, which Prometheus refuses; lower one, or raise the other" $monitor.scrapeTimeout $monitor.interval) }}
{{- end }}
{{- if and $monitor.enabled (not $monitor.tokenSecret) }}
{{- fail "metrics.serviceMonitor.tokenSecret: /metrics takes a token; make one for a viewer with `triggerctl token create`, put it into a Secret and name that" }}
{{- end }}
{{- end }}
